"""Repaired models as ONNX files, which onnxruntime, among others, runs without kdgraph.

:func:`export_onnx` writes calibrators and density gates, with their parent or without it.
Everything is computed in double precision, as in kdgraph.
"""

from kdgraph.deployment.onnx_export.export import export_onnx

__all__ = ["export_onnx"]
