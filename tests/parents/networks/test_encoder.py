"""Encoders by name: loading, adapting, freezing, with tiny local models."""

from __future__ import annotations

import json
import pickle
import shutil
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from kdgraph.errors import UsageError
from kdgraph.parents.networks import image_models
from kdgraph.parents.networks.encoder import EncoderNetwork
from kdgraph.parents.networks.image_models import (
    flatten_model_output,
    is_import_path,
    load_image_model,
)

FACTORY = """
import torch
from torch import nn


def maps(channels=1, filters=6):
    return nn.Sequential(nn.Conv2d(channels, filters, 3, stride=2), nn.BatchNorm2d(filters), nn.ReLU(), nn.Dropout(0.1))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x.flatten(1) * self.scale


def text():
    return "no module"
"""


def make_half_bright_images(n: int = 40, size: int = 16, channels: int = 1, seed: int = 0):
    """Return noisy images with a bright left or right half, and their labels in {3, 8}.

    X is Float32[n, channels, size, size] and y Int[n].
    """
    rng = np.random.default_rng(seed)
    right = rng.integers(0, 2, n).astype(bool)
    X = rng.uniform(0, 0.4, (n, channels, size, size))
    X[right, ..., size // 2 :] += 0.5
    X[~right, ..., : size // 2] += 0.5
    return X.astype(np.float32), np.where(right, 8, 3)


@pytest.fixture(scope="module")
def factory(tmp_path_factory):
    """Return the import path of a module with factories."""
    folder = tmp_path_factory.mktemp("factories")
    (folder / "tiny_encoders.py").write_text(FACTORY)
    sys.path.insert(0, str(folder))
    yield "tiny_encoders"
    sys.path.remove(str(folder))
    sys.modules.pop("tiny_encoders", None)


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip(
        "transformers", reason="the extra 'encoders' (transformers) is not installed"
    )


@pytest.fixture(scope="module")
def vit(transformers, tmp_path_factory):
    """Return a folder with a tiny random vision transformer and its image processor.

    It accepts 16×16 images of three channels.
    """
    folder = tmp_path_factory.mktemp("vit")
    config = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "image_size": 16,
        "patch_size": 8,
    }
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        transformers.ViTModel(transformers.ViTConfig(**config)).save_pretrained(folder)
    statistics = {
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.3, 0.4],
        "image_processor_type": "ViTImageProcessor",
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(statistics))
    return folder


def network(model: str = "resnet20", **changes) -> EncoderNetwork:
    small = {
        "embedding_size": 5,
        "hidden": (7,),
        "max_epochs": 2,
        "batch_size": 16,
        "learning_rate": 1e-2,
    }
    return EncoderNetwork(model=model, **small | {"random_state": 0, "device": "cpu"} | changes)


def state(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}


def equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_default_is_resnet20_with_a_head_of_256_200_and_the_classes():
    module = EncoderNetwork()._make_module((3, 32, 32), 10)
    shapes = [
        tuple(layer.weight.shape) for layer in module.modules() if isinstance(layer, nn.Linear)
    ]
    assert shapes == [(256, 64), (200, 256), (10, 200)]
    assert [type(layer).__name__ for layer in module.head] == ["Linear", "ReLU", "Linear"]
    # ResNet-20 without its last layer of 650 parameters.
    assert sum(p.numel() for p in module.encoder.parameters()) == 269_722 - 650


@pytest.mark.parametrize(
    ("changes", "width"), [({}, 5), ({"embedding_size": None}, 6), ({"hidden": ()}, 5)]
)
def test_embedding_is_the_input_of_the_head(factory, changes, width):
    X, y = make_half_bright_images()
    fitted = network(f"{factory}:maps", **changes).fit(X, y)
    embedding = fitted.transform(X, "embedding")
    assert embedding.shape == (40, width)
    head = fitted.module_.head
    with torch.no_grad():
        # Float32, and another batch size: a few roundings.
        np.testing.assert_allclose(
            head(torch.tensor(embedding)).numpy(), fitted.logits(X), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("changes", [{}, {"freeze": True}])
def test_is_determined_by_the_seed_and_pickles(factory, changes):
    X, y = make_half_bright_images()
    first = network(f"{factory}:maps", **changes).fit(X, y.astype(str))
    repeated, other_seed = (
        clone(first).fit(X, y.astype(str)),
        clone(first).set_params(random_state=1).fit(X, y.astype(str)),
    )
    assert np.array_equal(first.logits(X), repeated.logits(X))
    assert not np.array_equal(first.logits(X), other_seed.logits(X))
    assert np.array_equal(pickle.loads(pickle.dumps(first)).logits(X), first.logits(X))
    assert first.classes_.tolist() == ["3", "8"]
    np.testing.assert_allclose(first.predict_proba(X).sum(axis=1), 1, atol=1e-12)


def test_learns_half_bright_images():
    fitted = network(model_options={"depth": 8, "width": 4}, max_epochs=3).fit(
        *make_half_bright_images(64)
    )
    assert fitted.score(*make_half_bright_images(64, seed=1)) > 0.9


def test_freeze_fixes_the_encoder_alone(factory):
    X, y = make_half_bright_images()
    # With patience, held-out rows would be missing from max_epochs=3.
    options = {"patience": None}
    before, after = (
        network(f"{factory}:maps", freeze=True, max_epochs=epochs, **options).fit(X, y).module_
        for epochs in (0, 3)
    )
    # This includes the statistics of batch normalisation.
    assert equal(state(before.encoder), state(after.encoder))
    assert not equal(state(before.embedding), state(after.embedding))
    assert not equal(state(before.head), state(after.head))
    tuned = network(f"{factory}:maps", max_epochs=3, **options).fit(X, y).module_
    assert not equal(state(before.encoder), state(tuned.encoder))


def test_resizing_is_part_of_the_module(factory):
    X, _ = make_half_bright_images()
    plain, half = (
        load_image_model(f"{factory}:maps", (1, 16, 16), image_size=size)[0] for size in (None, 8)
    )
    half.model.load_state_dict(plain.model.state_dict())
    expected = nn.functional.interpolate(
        torch.tensor(X), size=(8, 8), mode="bilinear", antialias=True
    )
    with torch.no_grad():
        torch.testing.assert_close(half(torch.tensor(X)), plain.eval()(expected))


def test_grey_images_are_repeated_for_the_channels_of_the_model(factory):
    features, width = load_image_model(f"{factory}:maps", (1, 16, 16), options={"channels": 3})
    grey = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    assert width == 6
    assert torch.equal(features(grey), features(grey.repeat(1, 3, 1, 1)))


def test_features_of_outputs():
    class Output:
        def __init__(self, **parts):
            self.__dict__.update(parts)

    rng = np.random.default_rng(0)
    tokens, maps, pooled = (
        torch.tensor(rng.normal(size=shape)) for shape in ((2, 3, 4), (2, 4, 3, 5), (2, 4, 1, 1))
    )
    torch.testing.assert_close(
        flatten_model_output(tokens), (tokens[:, 0] + tokens[:, 1] + tokens[:, 2]) / 3
    )
    torch.testing.assert_close(
        flatten_model_output(maps), torch.tensor(maps.numpy().reshape(2, 4, 15).mean(-1))
    )
    assert torch.equal(
        flatten_model_output(Output(last_hidden_state=tokens, pooler_output=pooled)),
        pooled[:, :, 0, 0],
    )
    assert torch.equal(
        flatten_model_output(
            Output(last_hidden_state=tokens, pooler_output=pooled), use_pooler_output=False
        ),
        tokens.mean(1),
    )
    assert torch.equal(
        flatten_model_output(Output(last_hidden_state=tokens, pooler_output=None)), tokens.mean(1)
    )
    message = (
        "an image model must return features (2 axes), tokens (3) or maps (4), or an output with"
        " them, got "
    )
    for output, description in ((torch.zeros(3), "a tensor of 1 axes"), ((tokens,), "tuple")):
        with pytest.raises(UsageError) as caught:
            flatten_model_output(output)
        assert str(caught.value) == message + description


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torchvision.models:resnet18", True),
        ("torchvision.models.resnet18", True),
        ("encoders:make", True),
        ("google/vit-base-patch16-224", False),
        ("facebook/dinov2.small", False),
        ("resnet-50", False),
        ("./models/vit", False),
    ],
)
def test_recognises_import_paths(name, expected):
    assert is_import_path(name) is expected


def test_folder_with_a_dot_is_not_an_import_path(tmp_path, monkeypatch):
    (tmp_path / "vit.small").mkdir()
    monkeypatch.chdir(tmp_path)
    assert not is_import_path("vit.small")


def message_of(model: str, shape=(1, 16, 16), **options) -> str:
    with pytest.raises(UsageError) as caught:
        load_image_model(model, shape, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rejects_names_without_a_model(factory):
    assert (
        message_of("no_such.module:make")
        == "model 'no_such.module:make' cannot be imported (No module named 'no_such'); it must be"
        " on PYTHONPATH"
    )
    assert (
        message_of(f"{factory}:nothing")
        == f"model '{factory}:nothing' cannot be imported (module '{factory}' has no attribute"
        " 'nothing'); it must be on PYTHONPATH"
    )
    assert (
        message_of(f"{factory}:maps", options={"depth": 3})
        == f"model_options do not fit model '{factory}:maps' (got an unexpected keyword argument"
        " 'depth')"
    )
    assert (
        message_of("resnet20", options={"filters": 3})
        == "model_options do not fit model 'resnet20' (got an unexpected keyword argument"
        " 'filters')"
    )
    assert (
        message_of(f"{factory}.text")
        == f"model '{factory}.text' must give a torch.nn.Module, got str"
    )


def test_rejects_images_that_the_model_does_not_accept(factory):
    message = message_of(f"{factory}:maps", (2, 16, 16))
    assert message.startswith(f"model '{factory}:maps' cannot take images of 2×16×16 (")
    assert message.endswith("); image_size resizes them")


def test_random_weights_of_a_factory(factory):
    with torch.random.fork_rng([]):
        first_weights = []
        for weights in ("pretrained", "random"):
            torch.manual_seed(0)
            first_weights.append(
                load_image_model(f"{factory}:maps", (1, 16, 16), weights=weights)[0].state_dict()[
                    "model.0.weight"
                ]
            )
    assert not torch.equal(*first_weights)
    assert (
        message_of(f"{factory}:Own", weights="random")
        == f"model '{factory}:Own': Own has no reset_parameters() to draw random weights with; "
        "let the factory draw them and take weights=pretrained"
    )


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert (
        message_of("google/vit")
        == "model 'google/vit' needs transformers: pip install 'kdgraph[encoders]'"
    )


def test_transformers_model_returns_its_pooled_output(transformers, vit):
    X, y = make_half_bright_images(24)
    fitted = network(str(vit), max_epochs=0, embedding_size=None).fit(X, y)
    mean, std = np.array([0.5, 0.4, 0.3])[:, None, None], np.array([0.2, 0.3, 0.4])[:, None, None]
    images = torch.tensor(((X.repeat(3, axis=1) - mean) / std).astype(np.float32))
    with torch.no_grad():
        expected = transformers.ViTModel.from_pretrained(vit)(images).pooler_output
    # Float32 in another batch size.
    np.testing.assert_allclose(
        fitted.transform(X, "embedding"), expected.numpy(), rtol=1e-4, atol=1e-5
    )


def test_transformers_model_trains_resizes_and_pickles(vit):
    X, y = make_half_bright_images(24, size=12, channels=3)
    fitted = network(str(vit), max_epochs=1).fit(X, y)
    assert fitted.module_.encoder.size == 16
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).logits(X), fitted.logits(X))
    assert np.array_equal(clone(fitted).fit(X, y).logits(X), fitted.logits(X))


def test_pooler_missing_in_the_checkpoint_is_not_used(transformers, vit, tmp_path):
    model = transformers.ViTModel.from_pretrained(vit, add_pooling_layer=False)
    model.save_pretrained(tmp_path)
    with pytest.warns(
        UserWarning, match="comes without a preprocessor_config.json: images enter it as they are"
    ):
        features, width = load_image_model(str(tmp_path), (3, 16, 16))
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(features(images), model.eval()(images).last_hidden_state.mean(1))
    assert width == 8


def test_random_weights_of_a_model_of_transformers(vit):
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        random, _ = load_image_model(str(vit), (3, 16, 16), weights="random")
    saved, _ = load_image_model(str(vit), (3, 16, 16))
    assert not equal(state(random.model), state(saved.model))
    assert saved.model.config.hidden_size == random.model.config.hidden_size == 8


def test_rejects_names_that_transformers_cannot_load(vit, tmp_path, monkeypatch):
    assert message_of(str(tmp_path)).startswith(
        f"model '{tmp_path}' is none that transformers can load (Unrecognized model in "
    )
    shutil.copy(vit / "config.json", tmp_path)  # and no weights
    assert message_of(str(tmp_path)).startswith(
        f"model '{tmp_path}' is none that transformers can load (Error no file named "
    )
    requested_names = []

    def refuse(load, name, options):
        requested_names.append(name)
        raise OSError(
            "We couldn't connect to 'https://huggingface.co'\nCheck your internet connection"
        )

    monkeypatch.setattr(image_models, "_load_remote", refuse)
    assert (
        message_of("absent/model")
        == "model 'absent/model' is neither resnet20, an import path, a folder nor in the cache,"
        " and cannot be fetched (We couldn't connect to 'https://huggingface.co')"
    )
    assert requested_names == ["absent/model"]


def test_partition_uses_the_dense_head_and_gaussians_the_embedding(factory):
    from kdgraph.geometry.activations import ActivationPartition

    X, y = make_half_bright_images()
    fitted = network(f"{factory}:maps").fit(X, y)
    partition = ActivationPartition(fitted, layers="head")
    place = partition.locate(X)
    assert np.array_equal(place.points, fitted.transform(X, "embedding").astype(np.float64))
    assert partition.widths.tolist() == [7, 2]
    throughout = ActivationPartition(fitted)
    assert np.array_equal(throughout.locate(X).points, place.points)
    assert throughout.widths.tolist() == [294, 7, 2]  # and the encoder's ReLU: 6 maps of 7×7
