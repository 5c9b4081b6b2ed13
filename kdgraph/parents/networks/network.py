"""The scikit-learn side of every network, whatever it predicts: weights, splits, seeds, training,
layers.
"""

from __future__ import annotations

import copy
import difflib
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

from kdgraph.parameters import Count, NonNegative, OpenFraction, Positive, Range
from kdgraph.parents.networks.checkpoint import (
    Checkpoint,
    comparable_parameter,
    progress_callback,
    training_fingerprint,
)
from kdgraph.parents.networks.torch_state import (
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

_RESULT_NEUTRAL_PARAMETERS = {"n_jobs", "verbose", "report", "checkpoint", "random_state"}
"""Parameters that change no number, and the seed, of which the fingerprint takes what was drawn."""


@dataclass(eq=False, repr=False, kw_only=True)
class Network(TransformerMixin, BaseEstimator):
    """A network of torch as an estimator and a transformer of scikit-learn; what it predicts is a
    subclass's to say.

    A subclass is a dataclass too; its fields are parameters, and it implements ``_make_module`` and
    ``_loss``. :class:`NetworkClassifier` says what a classifier is; one for regression has other
    targets, outputs and losses, and this training.

    Parameters
    ----------
    optimizer : "adam", or "sgd" with momentum 0.9.
    learning_rate, weight_decay : of the optimizer; the decay is an L2 penalty, as in torch.optim.
    schedule : "constant", or "cosine": the learning rate falls towards 0 over ``max_epochs``.
    batch_size : rows of a step; a single row left over joins the last batch.
    max_epochs : 0 takes the module as it was made.
    patience : epochs without a lower loss after which training stops; the weights of the best epoch
        are kept, the first of several. None: no early stopping, and the last weights are kept.
    stop_on : "validation", the loss of held-out rows after each epoch; "train", the mean loss of
    the training rows during it.
    validation_fraction : share of the training rows that is held out for "validation", stratified.
        Where the rows are too few for that, the training loss decides.
    device : "auto" takes CUDA where torch sees it.
    amp : train in mixed precision; only on CUDA. Inference is in float32.
    threads : of torch within an operation in training. Sums of float32 depend on it, so it belongs
    to what decides the numbers.
    n_jobs : batches that inference runs side by side; never changes a number.
    random_state : seeds weights, held-out rows, order and dropout. The global random state of torch
    stays as it is.
    verbose : show a progress bar on stderr, if that is a terminal.
    report : a function that gets each :class:`FetchProgress`, or None.
    checkpoint : path of a file in which the state of the training is kept. A fit of the same data,
        parameters and integer ``random_state`` goes on from it, to the same bits. A file that does
        not fit is overwritten; it is removed when the fit is done.

    Attributes
    ----------
    module_ : the trained module, in eval mode, Float32, on the CPU.
    input_shape_ : shape of one row. ``n_features_in_`` is its first number.
    history_ : a dict of epoch, loss and validation_loss (None without held-out rows) for each
        epoch; and of validation_error, the share of held-out rows that is wrong, where that decides
        when to stop.
    n_epochs_, best_epoch_ : epochs trained, and the one (from 1) whose weights ``module_`` has.

    Notes
    -----
    Fits in one process take turns, since torch's random state and thread count belong to the
    process. Inference gives a row the same bits whatever rows come with it.
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
    """Whether rows must be images; vectors are not taken then."""

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        """A new module that maps Float32[b, *input_shape] to Float32[b, n_outputs]; its weights
        come from torch's global random state.
        """
        raise NotImplementedError

    def _loss(self) -> TrainingLoss:
        """What training makes small, and early stopping goes by."""
        raise NotImplementedError

    def _strata(self, target: np.ndarray) -> np.ndarray | None:
        """Int[n], groups of which the held-out rows have their shares, of ``target`` [n]; None:
        they are drawn from all rows alike.
        """
        return None

    def _train(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        **more: Any,
    ) -> TrainingResult:
        """Train the new module in place; a subclass may do other things before it. ``more``:
        keywords of :func:`train`.
        """
        return train(module, examples, self._loss(), options, validation=validation, **more)

    def _train_and_select(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        **more: Any,
    ) -> TrainingResult:
        """Train the new module in place, once; a subclass may do so several times, and keep the
        best.
        """
        return self._train(module, examples, validation, options, **more)

    def _fit_arrays(
        self,
        X: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray,
        n_outputs: int,
        **extra_arrays: np.ndarray,
    ) -> Examples:
        """Train a new module on rows that are checked, and learn everything that ends in ``_``;
        gives the rows that decided when to stop.

        ``target``: [n] numbers as the loss takes them, ``weight``: Float[n] from 0, ``n_outputs``:
        of the module for a row, ``extra_arrays``: arrays that ``_learn`` takes.
        """
        device = self._device()
        self.input_shape_ = X.shape[1:]
        rows, held_out, seed = self._split_rows(target, weight)
        with (
            progress_callback(self.verbose, self.report) as report,
            deterministic_torch(device, seed, self.threads),
        ):
            module = self._make_module(self.input_shape_, n_outputs).float()
            checkpoint = self._checkpoint(
                module, (X, target, weight, *extra_arrays.values()), seed, device
            )
            options = TrainingOptions(
                **{
                    f.name: getattr(self, f.name)
                    for f in fields(TrainingOptions)
                    if f.name != "device"
                },
                device=device,
            )
            validation = None if held_out is None else make_examples(X, target, weight, held_out)
            examples = make_examples(X, target, weight, rows)
            trained = self._train_and_select(
                module,
                examples,
                validation,
                options,
                seed=seed,
                report=report,
                checkpoint=checkpoint,
                **extra_arrays,
            )
        self.module_, self.history_, self.best_epoch_ = (
            module.eval(),
            trained.history,
            trained.best_epoch,
        )
        self.n_epochs_ = len(self.history_)
        if checkpoint:
            checkpoint.remove()
        return validation or examples

    def describe(self) -> dict[str, Any]:
        """What training came to, for the record: ``epochs``, and ``best_epoch``, whose weights were
        kept.
        """
        return {"epochs": self.n_epochs_, "best_epoch": self.best_epoch_}

    def _module_outputs(self, X: Any) -> np.ndarray:
        """Float32[n, …]: what the module puts out, finite also where it overflows, as one may where
        no row of training was.
        """
        X, module = self._validate_X(X), self._module_on_device()
        (outputs,) = self._map_batches(X, lambda batch: (module(batch),))
        return np.nan_to_num(outputs)

    def input_gradient(self, X, function: Callable[[Tensor], Tensor]) -> np.ndarray:
        """Float32[n, *input_shape]: the gradient, by the numbers of each row, of a function of what
        the module puts out.

        Parameters
        ----------
        X : as in ``fit``.
        function : Float32[b, …] outputs (logits of a classifier) → Float32[b], a number for each row, by
            functions of torch.
        """
        X, module = self._validate_X(X), self._module_on_device()

        def gradient(batch: Tensor) -> tuple[Tensor]:
            with torch.inference_mode(False), torch.enable_grad():
                inputs = batch.clone().requires_grad_()
                (found,) = torch.autograd.grad(function(module(inputs)).sum(), inputs)
            return (found,)

        return self._map_batches(X, gradient)[0]

    def transform(self, X, layer: str | None = None) -> np.ndarray:
        """Float32[n, m]: what a layer puts out, flattened; one of ``layer_names_``, None for what
        enters the last linear layer.

        Of a layer that the module uses several times it is the last output.
        """
        X = self._validate_X(X)
        name = self._last_linear_name() if layer is None else layer
        if name not in self.layer_names_:
            close = difflib.get_close_matches(name, self.layer_names_, n=1)
            raise ValueError(
                f"no layer named {name!r}; "
                + (f"did you mean {close[0]!r}?" if close else "layer_names_ lists them")
            )
        with record_layers(self._module_on_device(), [name], record_inputs=layer is None) as run:
            (outputs,) = self._map_batches(X, run)
        return outputs.reshape(len(X), -1)

    @property
    def layer_names_(self) -> list[str]:
        """Names of the submodules, in the order in which the module has them."""
        check_is_fitted(self, "module_")
        return [name for name, _ in self.module_.named_modules() if name]

    def _map_batches(
        self, X: np.ndarray, function: Callable[[Tensor], Sequence[Any]]
    ) -> tuple[np.ndarray, ...]:
        return map_batches(
            X, function, input_shape=self.input_shape_, device=self._device(), n_jobs=self.n_jobs
        )

    def _module_on_device(self) -> nn.Module:
        """The module on the device; on CUDA a copy, whose memory is free again after use."""
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

    def _device(self) -> str:
        seen = torch.cuda.is_available()
        if self.device == "cuda" and not seen:
            raise ValueError("device must be cpu or auto here: torch sees no CUDA device")
        return "cuda" if seen and self.device != "cpu" else "cpu"

    def _split_rows(
        self, target: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, int]:
        """Row numbers to train on and to stop by (or None), and a seed.

        Rows without weight are in neither; the only row of a stratum is trained on.
        """
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        rows = np.flatnonzero(weight > 0)
        if self.patience is None or self.stop_on == "train" or self.max_epochs == 0:
            return rows, None, seed
        strata = self._strata(target)
        alone = (
            np.zeros(len(rows), dtype=bool)
            if strata is None
            else np.bincount(strata[rows])[strata[rows]] == 1
        )
        several = rows[~alone]
        by = None if strata is None else strata[several]
        try:
            kept, held_out = train_test_split(
                several, test_size=self.validation_fraction, stratify=by, random_state=seed
            )
        except ValueError:  # fewer rows than strata on one side
            return rows, None, seed
        return np.concatenate([kept, rows[alone]]), held_out, seed

    def _checkpoint(
        self, module: nn.Module, data: tuple[np.ndarray, ...], seed: int, device: str
    ) -> Checkpoint | None:
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
        """Rows may be images (the tag for more than two axes is the nearest that there is);
        embeddings are Float32 whatever X is.
        """
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = not self.images_only
        tags.transformer_tags.preserves_dtype = []
        return tags


def make_examples(
    X: np.ndarray, target: np.ndarray, weight: np.ndarray, rows: np.ndarray
) -> Examples:
    """The ``rows`` (Int[m]) of X Float[n, …], target [n] and weight Float[n] as tensors; weights
    are divided by their mean, so that multiples of them train the same.
    """
    chosen = weight[rows]
    return Examples(
        torch.from_numpy(to_float32(X[rows])),
        torch.from_numpy(target[rows]),
        torch.from_numpy((chosen / chosen.mean()).astype(np.float32)),
    )
