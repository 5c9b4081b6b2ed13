"""Hydra's loader, for many compositions in one process: each file is read once, and what the files
say is merged as dicts.

A sweep over methods composes twice for each of them before the first run starts; this takes a fifth
of the time that Hydra takes, and gives the same, down to the order of the keys
(``tests/test_loader.py``).
"""

from __future__ import annotations

import copy
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, cast

import yaml
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import InputDefault, ResultDefault
from hydra.core.object_type import ObjectType
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from kdgraph.config.yaml_files import check_mapping, read_text
from kdgraph.errors import ConfigError

_READ: dict[tuple[str, str, str, bytes], _File] = {}
"""Files as this process has read them, by provider, folder, name and content. Nobody writes into
them, and none is let go.
"""
_HYDRA: dict[tuple[tuple[int, str | None], ...], DictConfig] = {}
"""Hydra's own node, by the files that say something of it (the place in memory of each, which is
kept) and their packages.
"""
_MISSING = "???"


class Loader(ConfigLoaderImpl):
    """Composes what Hydra's loader composes.

    Parameters
    ----------
    config_search_path : the folders, of which the first that has a file counts.

    Attributes
    ----------
    data_sets : nodes of data sets that others ask for, by option.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = _ReadOnce(config_search_path)
        self.data_sets: dict[str, dict[str, Any]] = {}

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        """Hydra's own node has types, so Hydra merges it."""
        read = [cast(_File, repo.load_config(str(default.config_path))) for default in defaults]
        said = [
            _in_package(default.package, result)
            for default, result in zip(defaults, read, strict=True)
        ]
        try:
            merged: dict[str, Any] = reduce(_merged, said, {})
        except _OnlyHydraCan:
            return super()._compose_config_from_defaults_list(defaults, repo)
        about_hydra = [i for i, values in enumerate(said) if "hydra" in values]
        key = tuple((id(read[i]), defaults[i].package) for i in about_hydra)
        if key not in _HYDRA:
            _HYDRA[key] = (
                super()
                ._compose_config_from_defaults_list([defaults[i] for i in about_hydra], repo)
                .hydra
            )
        composed = OmegaConf.create({**merged, "hydra": None})
        composed.hydra = _HYDRA[key]  # OmegaConf copies it
        return composed

    @staticmethod
    def _embed_result_config(ret: ConfigResult, package_override: str | None) -> ConfigResult:
        """A copy also of a file for no package, into which Hydra would merge those after it."""
        embedded = ConfigLoaderImpl._embed_result_config(ret, package_override)
        return copy.deepcopy(embedded) if embedded is ret else embedded


class _File(ConfigResult):
    """A file that was read."""

    @cached_property
    def values(self) -> Any:
        """As plain dicts, with interpolations as they are written."""
        return OmegaConf.to_container(self.config, resolve=False)


class _ReadOnce(ConfigRepository):
    """Files are looked for each time, and parsed when their content is new."""

    def load_config(self, config_path: str) -> _File | None:
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None:
            return None
        file = Path(source.path, source._normalize_file_name(config_path))
        content = file.read_bytes() if source.scheme() == "file" else b""
        key = (source.provider, source.path, config_path, content)
        if key not in _READ:
            if source.provider == "command-line":
                _check(file)
            try:
                _READ[key] = _File(**vars(super().load_config(config_path)))
            except (HydraException, OmegaConfBaseException, RecursionError) as error:
                reason = str(error).partition("\n")[0]
                raise ConfigError(f"{file} cannot be read as a config: {reason}") from error
        return _READ[key]

    def __deepcopy__(self, memo: dict[int, Any]) -> _ReadOnce:
        """Hydra copies it for each composition, which may look in other folders
        (``hydra.searchpath``).
        """
        return copy.copy(self)


def _check(file: Path) -> None:
    """Raise ConfigError unless a file of the user's is text with keys; what is not YAML is Hydra's
    to refuse.
    """
    text = read_text(file)
    try:
        values = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return
    check_mapping(file, values or None)


class _OnlyHydraCan(Exception):
    """What files say goes together in a way that takes more than merging dicts, or not at all."""


def _in_package(package: str | None, file: _File) -> Any:
    """What a file says, at its place in the config: ``dataset.source``, or "" for the whole."""
    keys = package.split(".") if package else []
    values = file.values if keys[:1] != ["hydra"] else {}
    for key in reversed(keys):
        values = {key: values}
    return values


def _merged(values: dict[str, Any], more: Any) -> dict[str, Any]:
    """The rules of OmegaConf for what has no types: dicts are merged, lists replaced; what is to be
    given (``???``) takes no value away.
    """
    if not isinstance(more, dict):  # a file that is a list
        raise _OnlyHydraCan
    both = dict(values)
    for key, new in more.items():
        old = values.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            both[key] = _merged(old, new)
        elif (
            isinstance(old, dict | list)
            and isinstance(new, dict | list)
            and type(old) is not type(new)
        ) or (
            isinstance(old, str)
            and "${" in old
            and (isinstance(new, dict | list) or new == _MISSING)
        ):
            raise _OnlyHydraCan
        elif new != _MISSING or key not in values:
            both[key] = new
    return both


_map_for_interpolations = defaults_list._create_interpolation_map
_NO_CHOICES = OmegaConf.create()


def _map_if_it_is_read(
    overrides: defaults_list.Overrides, defaults: list[InputDefault], self_added: bool
) -> DictConfig:
    """The choices known so far. Hydra makes this map at every file, and reads it at the few whose
    defaults have an interpolation.
    """
    read = any(default.is_interpolation() for default in defaults)
    return _map_for_interpolations(overrides, defaults, self_added) if read else _NO_CHOICES


defaults_list._create_interpolation_map = _map_if_it_is_read
