"""Base class of all networks: the scikit-learn interface around the training loop.

:class:`Network` validates rows, holds out validation rows, seeds and trains a module, runs
inference and gives access to layers. Subclasses define the module, the loss and the predictions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from kdgraph.docstrings import inherit_descriptions
from kdgraph.errors import did_you_mean
from kdgraph.parameters import Count, NonNegative, OpenFraction, Positive, Range
from kdgraph.parents.networks.checkpoint import (
    Checkpoint,
    comparable_parameter,
    progress_callback,
    training_fingerprint,
)
from kdgraph.parents.networks.torch_state import (
    check_cuda,
    deterministic_torch,
    map_batches,
    record_layers,
    to_float32,
)
from kdgraph.parents.networks.training import (
    Examples,
    TrainingLoss,
    TrainingOptions,
    TrainingResult,
    train,
)

# Parameters that are not part of the fingerprint of a training. They do not change any number,
# except ``random_state``: the fingerprint contains the seed that was drawn from it.
_RESULT_NEUTRAL_PARAMETERS = {"n_jobs", "verbose", "report", "checkpoint", "random_state"}


@dataclass(eq=False, repr=False, kw_only=True)
class Network(TransformerMixin, BaseEstimator):
    """Torch network as an estimator and transformer of scikit-learn.

    A subclass is a dataclass too. Its fields are parameters, and it implements ``_make_module`` and
    ``_loss``. :class:`NetworkClassifier` defines what a classifier is. Networks for regression have
    other targets, outputs and losses, and the same training.

    Parameters
    ----------
    optimizer : {"adam", "sgd"}, default="adam"
        Optimizer; "sgd" has a momentum of 0.9.
    learning_rate : float, default=3e-4
        Learning rate of the optimizer.
    weight_decay : float, default=0.0
        L2 penalty of the optimizer, as in torch.optim.
    schedule : {"constant", "cosine"}, default="constant"
        Schedule of the learning rate. With "cosine" it falls towards 0 over ``max_epochs``.
    batch_size : int, default=64
        Rows of a training step. A single remaining row joins the last batch.
    max_epochs : int, default=200
        Largest number of epochs; 0 uses the module unchanged.
    patience : int or None, default=10
        Epochs without a loss that is lower by more than rounding, 1.2e-7, after which training
        stops. The weights of the best epoch are kept, the first of several. None: no early
        stopping, and the last weights are kept.
    stop_on : {"validation", "train"}, default="validation"
        Criterion of early stopping: the loss of held-out rows after each epoch, or the mean loss of
        the training rows during it.
    validation_fraction : float, default=0.1
        Fraction of the training rows that is held out for "validation", stratified. If there are
        too few rows to hold some out, the training loss is the criterion.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device; "auto" uses CUDA if torch detects it. Networks of a few dozen units train faster on
        the CPU.
    amp : bool, default=True
        Train in mixed precision; only on CUDA. It saves memory, and time where layers are wide. Up
        to four layers of 1,000 units in batches of 64, training in float32 takes three quarters of
        the time on an H100. Inference is in float32, without TF32.
    threads : int, default=1
        Threads of torch within an operation in training. Sums of float32 depend on it, so it is one
        of the parameters that determine the numbers.
    n_jobs : int or None, default=None
        Number of batches that inference runs in parallel. It never changes a number.
    random_state : int, RandomState instance or None, default=None
        Seed of weights, held-out rows, batches and dropout. torch's global random state is
        restored.
    verbose : bool, default=False
        Show a progress bar on stderr, if that is a terminal.
    report : callable or None, default=None
        Function that receives each :class:`TrainingProgress`.
    checkpoint : path or None, default=None
        File in which the state of the training is saved. A fit with the same data, parameters and
        integer ``random_state`` continues from it, to the same bits. A file of another training is
        overwritten. The file is removed when the fit is done.

    Attributes
    ----------
    module_ : nn.Module
        The trained module, in eval mode, Float32, on the CPU.
    input_shape_ : tuple of int
        Shape of one row. ``n_features_in_`` is its first number.
    history_ : list of dict
        For each epoch its number, ``loss`` and ``validation_loss`` (None without held-out rows). If
        accuracy is the criterion of early stopping, it also has ``validation_error``, the fraction
        of held-out rows with an incorrect prediction.
    n_epochs_ : int
        Number of trained epochs.
    best_epoch_ : int
        Epoch, counted from 1, whose weights ``module_`` has.

    Notes
    -----
    Fits in one process run one after another, since torch's random state and thread count belong to
    the process. The output for a row does not depend on the rows that are predicted with it.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.parents.networks import MultilayerPerceptron, Network
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> mlp = MultilayerPerceptron(
    ...     hidden=(8,), learning_rate=0.01, max_epochs=5, device="cpu", random_state=0
    ... )
    >>> isinstance(mlp, Network)
    True
    >>> _ = mlp.fit(X, X[:, 0] > 0)
    >>> mlp.n_epochs_, mlp.input_shape_, mlp.layer_names_
    (5, (3,), ['0', '1', '2', '3'])
    >>> mlp.transform(X, layer="1").shape
    (100, 8)
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: Positive = 3e-4
    weight_decay: NonNegative = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    batch_size: Count = 64
    max_epochs: Annotated[int, Range(0)] = 200
    patience: Count | None = 10
    stop_on: Literal["validation", "train"] = "validation"
    validation_fraction: OpenFraction = 0.1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    amp: bool = True
    threads: Count = 1
    n_jobs: int | None = None
    random_state: Any = None
    verbose: bool = False
    report: Any = None
    checkpoint: Any = None

    images_only: ClassVar[bool] = False
    """True if rows must be images; vectors are rejected then."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_descriptions(cls)

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        """Return a new module that maps Float32[b, *input_shape] to Float32[b, n_outputs].

        Its weights are drawn from torch's global random state.
        """
        raise NotImplementedError

    def _loss(self) -> TrainingLoss:
        """Return the loss that training minimises and that early stopping monitors."""
        raise NotImplementedError

    def _strata(self, target: np.ndarray) -> np.ndarray | None:
        """Return groups, Int[n], by which the held-out rows are stratified, or None."""
        return None

    def _train(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        **train_options: Any,
    ) -> TrainingResult:
        """Train the new module in place; a subclass may do other things before it.

        ``train_options`` are keyword arguments of :func:`train`.
        """
        return train(
            module, examples, self._loss(), options, validation=validation, **train_options
        )

    def _train_and_select(self, *training: Any, **train_options: Any) -> TrainingResult:
        """Train the new module in place, once; a subclass may keep the best of several trainings.

        The arguments are those of :meth:`_train`.
        """
        return self._train(*training, **train_options)

    def _fit_arrays(
        self,
        X: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray,
        n_outputs: int,
        **extra_arrays: np.ndarray,
    ) -> Examples:
        """Train a new module on validated rows and set all fitted attributes.

        ``target`` has n numbers as the loss expects them, ``weight`` is Float[n] from 0, and
        ``extra_arrays`` are passed on to :meth:`_train_and_select`. The rows are returned on which
        early stopping was decided.
        """
        device = self._device()
        self.input_shape_ = X.shape[1:]
        # The seed determines everything that is random below: the weights of the new module are
        # drawn first, so a checkpoint's fingerprint can include them.
        rows, held_out, seed = self._split_rows(target, weight)
        with (
            progress_callback(self.verbose, self.report) as report,
            deterministic_torch(device, seed, self.threads),
        ):
            module = self._make_module(self.input_shape_, n_outputs).float()
            checkpoint = self._checkpoint(
                module, (X, target, weight, *extra_arrays.values()), seed, device
            )
            own_options = {f.name: getattr(self, f.name) for f in fields(TrainingOptions)}
            options = TrainingOptions(**{**own_options, "device": device})
            validation = None if held_out is None else make_examples(X, target, weight, held_out)
            examples = make_examples(X, target, weight, rows)
            training = module, examples, validation, options
            result = self._train_and_select(
                *training, seed=seed, report=report, checkpoint=checkpoint, **extra_arrays
            )
        self.module_ = module.eval()
        self.history_, self.best_epoch_ = result.history, result.best_epoch
        self.n_epochs_ = len(self.history_)
        if checkpoint:
            checkpoint.remove()
        return validation or examples

    def describe(self) -> dict[str, Any]:
        """Return the numbers of trained epochs and of the one whose weights the module has."""
        return {"epochs": self.n_epochs_, "best_epoch": self.best_epoch_}

    def _module_outputs(self, X: Any) -> np.ndarray:
        """Return the outputs of the module, Float32[n, …], with infinities and NaN replaced.

        Outputs may overflow for rows far from the training data.
        """
        return self._outputs_of_valid_rows(self._validate_X(X))

    def _outputs_of_valid_rows(self, X: np.ndarray) -> np.ndarray:
        module = self._module_on_device()
        (outputs,) = self._map_batches(X, lambda batch: (module(batch),))
        return np.nan_to_num(outputs)

    def input_gradient(
        self, X, function: Callable[[Tensor], Tensor], layer: str | None = None
    ) -> np.ndarray:
        """Return the gradient, by the inputs of each row, of a function of the module's outputs.

        Parameters
        ----------
        X : ndarray, Float[n, *input_shape]
            Rows, as in ``fit``.
        function : callable
            Differentiable function of the outputs Float32[b, …] (the logits of a classifier) that
            returns one number for each row, Float32[b].
        layer : str or None, default=None
            One of ``layer_names_``, whose outputs the function is of. None: those of the module. A
            layer of another name, or one that did not run, raises ValueError.
        """
        X, module = self._validate_X(X), self._module_on_device()
        if layer is None:
            return self._map_batches(X, _batch_gradient(function, module))[0]
        self._check_layer(layer)
        with record_layers(module, [layer]) as run:
            return self._map_batches(X, _batch_gradient(function, lambda rows: run(rows)[0]))[0]

    def pooled_features(self, X, layers: Sequence[str]) -> list[np.ndarray]:
        """Return the outputs of several layers, averaged over the pixels of each channel.

        For each of ``layers``, some of ``layer_names_``, they are Float32[n, c]: channels, units,
        or means over tokens. An unknown layer, or one that did not run, raises ValueError.
        """
        X = self._validate_X(X)
        for layer in layers:
            self._check_layer(layer)
        with record_layers(self._module_on_device(), layers) as run:
            return list(self._map_batches(X, lambda batch: list(map(self.pool, run(batch)))))

    @staticmethod
    def pool(outputs: Tensor) -> Tensor:
        """Return the mean of a layer's outputs over pixels or tokens, Float32[b, c].

        Outputs are Float32[b, c, h, w] for images, Float32[b, tokens, c] for sequences, or
        Float32[b, c].
        """
        if outputs.ndim == 3:
            return outputs.mean(dim=1)
        return outputs.flatten(2).mean(dim=2) if outputs.ndim > 3 else outputs

    def transform(self, X, layer: str | None = None) -> np.ndarray:
        """Return the outputs of a layer, flattened, Float32[n, m].

        It is one of ``layer_names_``; None returns the input of the last linear layer. For a layer
        that the module uses several times, it is the last output. An unknown layer, or one that did
        not run, raises ValueError.
        """
        X = self._validate_X(X)
        name = self._last_linear_name() if layer is None else layer
        self._check_layer(name)
        with record_layers(self._module_on_device(), [name], record_inputs=layer is None) as run:
            (outputs,) = self._map_batches(X, run)
        return outputs.reshape(len(X), -1)

    @property
    def layer_names_(self) -> list[str]:
        """Names of the submodules, in the order in which the module contains them."""
        check_is_fitted(self, "module_")
        return [name for name, _ in self.module_.named_modules() if name]

    @property
    def activation_names_(self) -> list[str]:
        """Names of the submodules that are activation functions of torch, such as ReLU."""
        check_is_fitted(self, "module_")
        # The module of torch has attention, too, which consists of other modules.
        return [
            name
            for name, part in self.module_.named_modules()
            if type(part).__module__ == nn.ReLU.__module__ and not list(part.children())
        ]

    def _check_layer(self, name: str) -> None:
        if name not in self.layer_names_:
            advice = did_you_mean(name, self.layer_names_, "; layer_names_ lists them")
            raise ValueError(f"no layer named {name!r}{advice}")

    def _map_batches(
        self, X: np.ndarray, function: Callable[[Tensor], Sequence[Any]]
    ) -> tuple[np.ndarray, ...]:
        return map_batches(
            X, function, input_shape=self.input_shape_, device=self._device(), n_jobs=self.n_jobs
        )

    def _module_on_device(self) -> nn.Module:
        """Return the module; on CUDA a copy, so that its memory is freed after use."""
        device = self._device()
        return self.module_ if device == "cpu" else copy.deepcopy(self.module_).to(device)

    def _validate_X(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], allow_nd=True)
        if X.shape[1:] != self.input_shape_:
            raise ValueError(
                f"rows of X must have the shape of those in fit, {self.input_shape_}, got"
                f" {X.shape[1:]}"
            )
        return X

    def check_device(self) -> None:
        """Raise ParameterError if CUDA is required but missing."""
        if self.device == "cuda":
            check_cuda()

    def _device(self) -> str:
        """Return "cpu" or "cuda"; raise ParameterError if CUDA is required but missing."""
        self.check_device()
        return "cuda" if torch.cuda.is_available() and self.device != "cpu" else "cpu"

    def _split_rows(
        self, target: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, int]:
        """Return row numbers for training, those for early stopping (or None), and a seed.

        Rows without weight are in neither set. The only row of a stratum is used for training.
        """
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        rows = np.flatnonzero(weight > 0)
        if self.patience is None or self.stop_on == "train" or self.max_epochs == 0:
            return rows, None, seed
        strata = self._strata(target)
        is_only_row = np.zeros(len(rows), dtype=bool)
        if strata is not None:
            is_only_row = np.bincount(strata[rows])[strata[rows]] == 1
        divisible_rows = rows[~is_only_row]
        try:
            training_rows, held_out = train_test_split(
                divisible_rows,
                test_size=self.validation_fraction,
                stratify=None if strata is None else strata[divisible_rows],
                random_state=seed,
            )
        except ValueError:
            # One side would have fewer rows than strata. With two to five rows of a class, networks
            # had a lower NLL on new rows without early stopping than by some classes, in 9 of 12.
            return rows, None, seed
        return np.concatenate([training_rows, rows[is_only_row]]), held_out, seed

    def _checkpoint(
        self, module: nn.Module, data: tuple[np.ndarray, ...], seed: int, device: str
    ) -> Checkpoint | None:
        """Return the checkpoint, whose fingerprint covers data, weights, seed and parameters."""
        if self.checkpoint is None:
            return None
        weights = [tensor.numpy() for tensor in module.state_dict().values()]
        parameters = sorted(
            (f.name, comparable_parameter(getattr(self, f.name)))
            for f in fields(self)
            if f.name not in _RESULT_NEUTRAL_PARAMETERS
        )
        return Checkpoint(
            self.checkpoint,
            training_fingerprint(
                [*data, *weights], [type(self).__name__, seed, device, parameters]
            ),
        )

    def _last_linear_name(self) -> str:
        names = [name for name, part in self.module_.named_modules() if isinstance(part, nn.Linear)]
        if not names:
            raise ValueError(
                "the module has no linear layer: give transform the name of a layer; layer_names_"
                " lists them"
            )
        return names[-1]

    def __sklearn_tags__(self):
        # The tag for three axes is the nearest one to images. Embeddings are Float32 for any X.
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = not self.images_only
        tags.transformer_tags.preserves_dtype = []
        return tags


def _batch_gradient(
    function: Callable[[Tensor], Tensor], outputs_of: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], tuple[Tensor]]:
    """Return the gradient of ``function`` of the outputs by a batch, as a function of the batch."""

    def gradient(batch: Tensor) -> tuple[Tensor]:
        with torch.inference_mode(False), torch.enable_grad():
            inputs = batch.clone().requires_grad_()
            (row_gradients,) = torch.autograd.grad(function(outputs_of(inputs)).sum(), inputs)
        return (row_gradients,)

    return gradient


def make_examples(
    X: np.ndarray, target: np.ndarray, weight: np.ndarray, rows: np.ndarray
) -> Examples:
    """Return :class:`Examples` of the ``rows``, Int[m], with weights divided by their mean.

    The division makes training independent of the scale of the weights. Inputs are Float[n, …], and
    targets, of shape (n,), as the loss expects them.
    """
    selected_weights = weight[rows]
    return Examples(
        torch.from_numpy(to_float32(X[rows])),
        torch.from_numpy(target[rows]),
        torch.from_numpy((selected_weights / selected_weights.mean()).astype(np.float32)),
    )
