"""Image models by name, as feature extractors: ours, a factory by import path, or what
``transformers`` can load.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from kdgraph.errors import UsageError
from kdgraph.parents.networks.convolutional import residual_layers

InitialWeights = Literal["pretrained", "random"]
IMPORT_PATH_PATTERN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:\w+|[^\W\d]\w*(\.[^\W\d]\w*)+")
"""The form of an import path: a colon, or dots and no slash."""


class ImageFeatureExtractor(nn.Module):
    """Images as a data set has them in, features out: size, colours and units are made to fit, and
    what the model returns is flattened.

    Parameters
    ----------
    model : the image model.
    size : pixels of the height and width to which images are resized bilinearly, or None.
    channels : a grey image is repeated to so many, or None.
    mean, std : [c] subtracted from and divided out of the channels, or None.
    use_pooler_output : whether a ``pooler_output`` is to be trusted.
    """

    mean: Tensor | None
    std: Tensor | None

    def __init__(
        self,
        model: nn.Module,
        size: int | None = None,
        channels: int | None = None,
        mean: Tensor | None = None,
        std: Tensor | None = None,
        use_pooler_output: bool = True,
    ):
        super().__init__()
        self.model, self.size, self.channels, self.use_pooler_output = (
            model,
            size,
            channels,
            use_pooler_output,
        )
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, images: Tensor) -> Tensor:
        """Float[n, c, h, w] → Float[n, m]."""
        if self.size is not None and images.shape[2:] != (self.size, self.size):
            images = functional.interpolate(
                images, size=(self.size, self.size), mode="bilinear", antialias=True
            )
        if self.channels is not None and images.shape[1] == 1:
            images = images.expand(-1, self.channels, -1, -1)
        if self.mean is not None and self.std is not None:
            images = (images - self.mean[:, None, None]) / self.std[:, None, None]
        return flatten_model_output(self.model(images), self.use_pooler_output)


def flatten_model_output(output: Any, use_pooler_output: bool = True) -> Tensor:
    """Float[n, m] from what an image model returned.

    A tensor Float[n, m] is taken as it is, Float[n, tokens, m] and Float[n, m, h, w] are averaged
    over tokens or pixels. Of an output of ``transformers``, it is ``pooler_output`` if there is one
    (and ``use_pooler_output``), else ``last_hidden_state``.
    """
    if not isinstance(output, Tensor):
        pooler = getattr(output, "pooler_output", None) if use_pooler_output else None
        if pooler is not None:
            return pooler.flatten(1)
        output = getattr(output, "last_hidden_state", output)
    if not isinstance(output, Tensor) or output.ndim not in (2, 3, 4):
        kind = (
            f"a tensor of {output.ndim} axes"
            if isinstance(output, Tensor)
            else type(output).__name__
        )
        raise UsageError(
            "an image model must return features (2 axes), tokens (3) or maps (4), or an output"
            f" with them, got {kind}"
        )
    return (
        output
        if output.ndim == 2
        else output.mean(dim=1)
        if output.ndim == 3
        else output.mean(dim=(2, 3))
    )


def load_image_model(
    name: str,
    input_shape: tuple[int, ...],
    *,
    weights: InitialWeights = "pretrained",
    image_size: int | None = None,
    options: Any = None,
) -> tuple[ImageFeatureExtractor, int]:
    """The image model called ``name``, ready for images of ``input_shape`` (c, h, w), and the width
    of its features.

    Parameters
    ----------
    name : ``resnet20``; ``package.module:factory`` or ``package.module.factory``, which returns a
        module; else a folder or a name that ``AutoModel`` of ``transformers`` knows.
    weights : ``pretrained`` (of ``resnet20``, which has none: random; of a factory: those that it
        gives) or ``random``, drawn from torch's generator.
    image_size : pixels to which images are resized; None: what the model's config says, or not at
    all.
    options : keyword arguments of the factory, of ``AutoModel``, or of :func:`residual_layers`.

    Raises
    ------
    UsageError : (a ValueError) for a name that leads to no model, or a model that cannot take such
        images.
    """
    options = dict(options or {})
    if name == "resnet20":
        features = ImageFeatureExtractor(
            nn.Sequential(_call_factory(partial(residual_layers, input_shape[0]), name, options)),
            image_size,
        )
    elif is_import_path(name):
        features = ImageFeatureExtractor(_from_factory(name, weights, options), image_size)
    else:
        features = _from_transformers(name, weights, image_size, options)
    wanted = next(
        (part.in_channels for part in features.modules() if isinstance(part, nn.Conv2d)), None
    )
    if input_shape[0] == 1 and wanted is not None and wanted > 1:
        features.channels = wanted
    return features, _count_features(features, name, input_shape)


def is_import_path(name: str) -> bool:
    """Whether ``name`` has the form of an import path; a folder that exists is none."""
    return not Path(name).is_dir() and bool(IMPORT_PATH_PATTERN.fullmatch(name))


def _count_features(
    features: ImageFeatureExtractor, name: str, input_shape: tuple[int, ...]
) -> int:
    """Features of one black image, counted."""
    features.eval()
    try:
        with torch.no_grad():
            return features(torch.zeros(1, *input_shape)).shape[1]
    except UsageError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        shape = "×".join(map(str, input_shape))
        raise UsageError(
            f"model '{name}' cannot take images of {shape} ({_first_line(error)}); image_size"
            " resizes them"
        ) from error


def _from_factory(name: str, weights: InitialWeights, options: Mapping[str, Any]) -> nn.Module:
    module, _, factory = name.rpartition(":" if ":" in name else ".")
    try:
        make: Callable[..., Any] = getattr(import_module(module), factory)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"model '{name}' cannot be imported ({_first_line(error)}); it must be on PYTHONPATH"
        ) from error
    made = _call_factory(make, name, options)
    if not isinstance(made, nn.Module):
        raise UsageError(f"model '{name}' must give a torch.nn.Module, got {type(made).__name__}")
    if weights == "random":
        _reset_parameters(made, name)
    return made


def _call_factory(factory: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Any:
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise UsageError(f"model_options do not fit model '{name}' ({error})") from error
    return factory(**options)


def _reset_parameters(module: nn.Module, name: str) -> None:
    for part in module.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()  # pyright: ignore[reportCallIssue] (a method, where there is one)
        elif next(part.parameters(recurse=False), None) is not None:
            way_out = "let the factory draw them and take weights=pretrained"
            raise UsageError(
                f"model '{name}': {type(part).__name__} has no reset_parameters() to draw random"
                f" weights with; {way_out}"
            )


def _from_transformers(
    name: str, weights: InitialWeights, image_size: int | None, options: Mapping[str, Any]
) -> ImageFeatureExtractor:
    try:
        transformers = _import_untyped("transformers")
    except ImportError as error:
        raise UsageError(
            f"model '{name}' needs transformers: pip install 'kdgraph[encoders]'"
        ) from error
    mean = std = None
    pooled = True
    if weights == "random":
        model = transformers.AutoModel.from_config(
            _load_cached_or_remote(transformers.AutoConfig.from_pretrained, name), **options
        )
    else:
        model, info = _load_cached_or_remote(
            transformers.AutoModel.from_pretrained, name, output_loading_info=True, **options
        )
        pooled = not any(
            "pooler" in key for key in info["missing_keys"]
        )  # else it is random: the checkpoint had another head
        mean, std = _channel_statistics(name)
    size = getattr(model.config, "image_size", None)
    return ImageFeatureExtractor(
        model,
        image_size or (size if isinstance(size, int) else None),
        mean=mean,
        std=std,
        use_pooler_output=pooled,
    )


def _load_cached_or_remote(load: Callable[..., Any], name: str, **options: Any) -> Any:
    """From a folder or the user's cache if it is there, so that nothing waits for a network; else
    from the network.
    """
    try:
        with _without_progress_bar():
            return load(name, local_files_only=True, **options)
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or Path(name).is_dir():
            raise UsageError(
                f"model '{name}' is none that transformers can load ({_first_line(error)})"
            ) from error
    try:
        return _load_remote(load, name, options)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"model '{name}' is neither resnet20, an import path, a folder nor in the cache, and"
            f" cannot be fetched ({_first_line(error)})"
        ) from error


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Reading weights from a disk takes a moment, and transformers would draw a bar for it."""
    logging = _import_untyped("transformers.utils").logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _load_remote(load: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Any:
    return load(name, **options)


def _channel_statistics(name: str) -> tuple[Tensor | None, Tensor | None]:
    """Mean and standard deviation of the channels that the model was trained with, from its image
    processor's file.
    """
    image_processor = _import_untyped("transformers.image_processing_base").ImageProcessingMixin
    try:
        said, _ = _load_cached_or_remote(image_processor.get_image_processor_dict, name)
    except UsageError:
        warnings.warn(
            f"model '{name}' comes without a preprocessor_config.json: images enter it as they are",
            stacklevel=2,
        )
        return None, None
    if (
        not said.get("do_normalize", True)
        or said.get("image_mean") is None
        or said.get("image_std") is None
    ):
        return None, None
    return torch.tensor(said["image_mean"]), torch.tensor(said["image_std"])


def _import_untyped(module: str) -> Any:
    """Not by a statement: pyright would read 2,700 modules behind it, a third of its time, and find
    no types in what is used here.
    """
    return import_module(module)


def _first_line(error: BaseException) -> str:
    return next(
        (line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__
    )
