"""Image models by name, as feature extractors.

A name is "resnet20" (He et al. 2016), the import path of a factory, or a model that the Hugging
Face library ``transformers`` can load.
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
from kdgraph.extras import needs_library
from kdgraph.parents.networks.convolutional import residual_layers
from kdgraph.wording import first_line

InitialWeights = Literal["pretrained", "random"]
"""Weights of a loaded model: those that come with it, or new random ones."""
IMPORT_PATH_PATTERN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:\w+|[^\W\d]\w*(\.[^\W\d]\w*)+")
"""Form of an import path: it has a colon, or dots and no slash."""


class ImageFeatureExtractor(nn.Module):
    """Module that maps images of a data set to features.

    It adapts size, colours and scale of the images to the model, and flattens the output: images
    are resized bilinearly to ``size``, a grey one is repeated for ``channels``, and they are
    standardised by ``mean`` and ``std`` of the channels, of shape (c,).
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
        self.model, self.size, self.channels = model, size, channels
        self.use_pooler_output = use_pooler_output
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, images: Tensor) -> Tensor:
        """Map images Float[n, c, h, w] to features Float[n, m]."""
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
    """Return features Float[n, m] from the output of an image model.

    A tensor Float[n, m] is returned unchanged. Float[n, tokens, m] and Float[n, m, h, w] are
    averaged over tokens or pixels. From an output of ``transformers``, ``pooler_output`` is used if
    there is one (and ``use_pooler_output`` is true), otherwise ``last_hidden_state``. Other outputs
    raise UsageError.
    """
    if not isinstance(output, Tensor):
        pooler = getattr(output, "pooler_output", None) if use_pooler_output else None
        if pooler is not None:
            return pooler.flatten(1)
        output = getattr(output, "last_hidden_state", output)
    if not isinstance(output, Tensor) or output.ndim not in (2, 3, 4):
        is_tensor = isinstance(output, Tensor)
        kind = f"a tensor of {output.ndim} axes" if is_tensor else type(output).__name__
        raise UsageError(
            "an image model must return features (2 axes), tokens (3) or maps (4), or an output"
            f" with them, got {kind}"
        )
    if output.ndim == 2:
        return output
    return output.mean(dim=1) if output.ndim == 3 else output.mean(dim=(2, 3))


def load_image_model(
    name: str,
    input_shape: tuple[int, ...],
    *,
    weights: InitialWeights = "pretrained",
    image_size: int | None = None,
    options: Any = None,
) -> tuple[ImageFeatureExtractor, int]:
    """Return the image model of a name for images of a shape, and the number of its features.

    The name is ``resnet20``; ``package.module:factory`` or ``package.module.factory``, a function
    that returns a module; otherwise a folder or a name that ``AutoModel`` of ``transformers`` can
    load. "pretrained" weights are those of the checkpoint, or those that a factory sets; those of
    ``resnet20`` are random. Images are resized to ``image_size``, without one to the size in the
    config of the model. ``options`` are keyword arguments of the factory, of ``AutoModel``, or of
    :func:`residual_layers`. UsageError is raised if the name does not lead to a model, or the model
    does not accept such images.
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
    # The first convolution determines the number of channels that the model expects.
    n_channels = next(
        (part.in_channels for part in features.modules() if isinstance(part, nn.Conv2d)), None
    )
    if input_shape[0] == 1 and n_channels is not None and n_channels > 1:
        features.channels = n_channels
    return features, _count_features(features, name, input_shape)


def is_import_path(name: str) -> bool:
    """Return True if ``name`` has the form of an import path and is not an existing folder."""
    return not Path(name).is_dir() and bool(IMPORT_PATH_PATTERN.fullmatch(name))


def _count_features(
    features: ImageFeatureExtractor, name: str, input_shape: tuple[int, ...]
) -> int:
    features.eval()
    try:
        with torch.no_grad():
            return features(torch.zeros(1, *input_shape)).shape[1]
    except UsageError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        shape = "×".join(map(str, input_shape))
        raise UsageError(
            f"model '{name}' cannot take images of {shape} ({first_line(error)}); image_size"
            " resizes them"
        ) from error


def _from_factory(name: str, weights: InitialWeights, options: Mapping[str, Any]) -> nn.Module:
    module, _, factory = name.rpartition(":" if ":" in name else ".")
    try:
        factory_function: Callable[..., Any] = getattr(import_module(module), factory)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"model '{name}' cannot be imported ({first_line(error)}); it must be on PYTHONPATH"
        ) from error
    model = _call_factory(factory_function, name, options)
    if not isinstance(model, nn.Module):
        raise UsageError(f"model '{name}' must give a torch.nn.Module, got {type(model).__name__}")
    if weights == "random":
        _reset_parameters(model, name)
    return model


def _call_factory(factory: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Any:
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise UsageError(f"model_options do not fit model '{name}' ({error})") from error
    return factory(**options)


def _reset_parameters(module: nn.Module, name: str) -> None:
    for layer in module.modules():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()  # pyright: ignore[reportCallIssue] (a method, where there is one)
        elif next(layer.parameters(recurse=False), None) is not None:
            remedy = "let the factory draw them and take weights=pretrained"
            raise UsageError(
                f"model '{name}': {type(layer).__name__} has no reset_parameters() to draw random"
                f" weights with; {remedy}"
            )


def _from_transformers(
    name: str, weights: InitialWeights, image_size: int | None, options: Mapping[str, Any]
) -> ImageFeatureExtractor:
    """Return the model that ``transformers`` loads, with normalisation and size from its config."""
    try:
        transformers = _import_untyped("transformers")
    except ImportError as error:
        raise UsageError(needs_library(f"model '{name}'", "transformers")) from error
    mean = std = None
    has_trained_pooler = True
    if weights == "random":
        model = transformers.AutoModel.from_config(
            _load_cached_or_remote(transformers.AutoConfig.from_pretrained, name), **options
        )
    else:
        model, info = _load_cached_or_remote(
            transformers.AutoModel.from_pretrained, name, output_loading_info=True, **options
        )
        # A pooler that is missing in the checkpoint has random weights.
        has_trained_pooler = not any("pooler" in key for key in info["missing_keys"])
        mean, std = _channel_statistics(name)
    size = getattr(model.config, "image_size", None)
    return ImageFeatureExtractor(
        model,
        image_size or (size if isinstance(size, int) else None),
        mean=mean,
        std=std,
        use_pooler_output=has_trained_pooler,
    )


def _load_cached_or_remote(load: Callable[..., Any], name: str, **options: Any) -> Any:
    """Load from a folder or the cache of the user, otherwise from the network.

    The cache has priority, so that nothing waits for a network.
    """
    try:
        with _without_progress_bar():
            return load(name, local_files_only=True, **options)
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or Path(name).is_dir():
            raise UsageError(
                f"model '{name}' is none that transformers can load ({first_line(error)})"
            ) from error
    try:
        return _load_remote(load, name, options)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"model '{name}' is neither resnet20, an import path, a folder nor in the cache, and"
            f" cannot be fetched ({first_line(error)})"
        ) from error


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Disable the progress bar of transformers; loading weights from a disk takes a moment only."""
    logging = _import_untyped("transformers.utils").logging
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def _load_remote(load: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Any:
    return load(name, **options)


def _channel_statistics(name: str) -> tuple[Tensor | None, Tensor | None]:
    """Return mean and standard deviation of the channels, from the image processor."""
    image_processor = _import_untyped("transformers.image_processing_base").ImageProcessingMixin
    try:
        config, _ = _load_cached_or_remote(image_processor.get_image_processor_dict, name)
    except UsageError:
        warnings.warn(
            f"model '{name}' comes without a preprocessor_config.json: images enter it as they are",
            stacklevel=2,
        )
        return None, None
    if (
        not config.get("do_normalize", True)
        or config.get("image_mean") is None
        or config.get("image_std") is None
    ):
        return None, None
    return torch.tensor(config["image_mean"]), torch.tensor(config["image_std"])


def _import_untyped(module: str) -> Any:
    """Import a module whose types are not checked.

    With an import statement pyright would read 2,700 more modules, a third of its time, and would
    find no types for the objects that are used here.
    """
    return import_module(module)
