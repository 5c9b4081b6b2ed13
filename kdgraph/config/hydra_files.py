"""Hydra's loaders over YAML files, each of which is parsed once."""

from __future__ import annotations

import copy
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, cast

from hydra import initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import Container, OmegaConf

from kdgraph.config.preset_tables import TABLE, presets_of_folder
from kdgraph.config.yaml_files import is_option, read_text

HYDRAS_NODE = "hydra/config"
"""The file that Hydra puts in front of each defaults list."""
_OF_HYDRA = re.compile(r"(\w+ )*/?hydra/")
"""Beginning of an entry of a defaults list that chooses an option of Hydra's own groups."""


class _KeptFiles(ConfigSource):
    """YAML files of a folder, as ``file://`` has them, each parsed once."""

    @staticmethod
    def scheme() -> str:
        return "kept"

    def load_config(self, config_path: str) -> ConfigResult:
        header, config = self._parsed(config_path)
        # Hydra takes the defaults list out of it, and embeds the rest in a config.
        return ConfigResult(self.provider, self.full_path(), copy.deepcopy(config), dict(header))

    def _parsed(self, config_path: str) -> tuple[Mapping[str, str | None], Container]:
        file = self._file(config_path)
        if not is_option(file):
            raise ConfigLoadError(f"Config not found : {file}")
        return _parsed(str(file), read_text(file))

    def available(self) -> bool:
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        return os.path.isdir(os.path.join(self.path, config_path))

    def is_config(self, config_path: str) -> bool:
        return is_option(self._file(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        files: list[str] = []
        folder = Path(self.path, config_path)
        presets = (f"{name}.yaml" for name in presets_of_folder(folder))
        for name in {*os.listdir(folder), *presets} - {TABLE}:
            self._list_add_result(
                files=files,
                file_path=os.path.join(config_path, name),
                file_name=name,
                results_filter=results_filter,
            )
        return sorted(set(files))

    def _file(self, config_path: str) -> Path:
        return Path(self.path, self._normalize_file_name(config_path))


class _Presets(SearchPathPlugin):
    """Makes Hydra read the presets of tables too, in its main folder and in that of the user."""

    user_folder: ClassVar[Path | None] = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for element in search_path.get_path():
            if element.provider == "main":
                folder = element.path.removeprefix("file://")
                element.path = f"{_KeptFiles.scheme()}://{folder}"
        if self.user_folder is not None:  # Hydra adds the folder with its files alone after this
            search_path.append("presets", f"{_KeptFiles.scheme()}://{self.user_folder.resolve()}")


@contextmanager
def registered_presets(config_dir: str | None) -> Iterator[None]:
    """Register the presets of tables with Hydra, for its own program.

    Those in the folder of the user are read inside the block alone.
    """
    Plugins.instance().register(_KeptFiles)
    Plugins.instance().register(_Presets)
    _Presets.user_folder = None if config_dir is None else Path(config_dir)
    try:
        yield
    finally:
        _Presets.user_folder = None


@lru_cache(maxsize=4096)
def _parsed(file: str, text: str) -> tuple[Mapping[str, str | None], Container]:
    stream = io.StringIO(text)
    stream.name = file  # type: ignore[attr-defined] # errors of the YAML reader name it
    return ConfigSource._get_header_dict(text[:512]), OmegaConf.load(cast("Any", stream))


class _Outline(_KeptFiles):
    """The defaults lists of the files, without the options of Hydra's own node, and no more."""

    def __init__(self, folder: Path) -> None:
        super().__init__("main", f"{self.scheme()}://{folder}")
        self.outline = cache(self._outline)
        self.nodes = cache(self._nodes)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Outline:
        return self  # Hydra copies its sources for each config, and none of what is kept here

    @staticmethod
    def scheme() -> str:
        return "outline"

    def load_config(self, config_path: str) -> ConfigResult:
        header, defaults = self.outline(config_path)
        config = OmegaConf.create(flags={"no_deepcopy_set_nodes": True})
        if defaults is not None:
            config["defaults"] = defaults
        return ConfigResult(self.provider, self.full_path(), config, dict(header))

    def is_config(self, config_path: str) -> bool:
        return config_path == HYDRAS_NODE or super().is_config(config_path)

    def _outline(self, config_path: str) -> tuple[Mapping[str, str | None], Any]:
        if config_path == HYDRAS_NODE:
            return {"package": None}, None
        header, config = self._parsed(config_path)
        values = cast("dict[str, Any]", OmegaConf.to_container(config))
        if "defaults" not in values:
            return header, None
        return header, OmegaConf.create([e for e in values["defaults"] if not _is_of_hydra(e)])

    def _nodes(self, config_path: str, package: str) -> Mapping[str, Any]:
        """Return the keys of a file, in its package."""
        values = cast("dict[str, Any]", OmegaConf.to_container(self._parsed(config_path)[1]))
        values.pop("defaults", None)
        if "[" in package:
            raise ValueError(f"OmegaConf reads the brackets of package {package}")
        for key in reversed(package.split(".") if package else []):
            values = {key: values}
        values.pop("hydra", None)
        return values


def _is_of_hydra(entry: Any) -> bool:
    """Return whether an entry of a defaults list chooses an option of one of Hydra's own groups."""
    return bool(_OF_HYDRA.match(str(next(iter(entry)) if isinstance(entry, dict) else entry)))


def outlines(folders: Sequence[Path]) -> list[_Outline]:
    """Return the outline of each folder, in the order in which their files count."""
    return [_Outline(folder) for folder in folders]


def hydra_loader(folders: Sequence[Path]) -> ConfigLoader:
    """Return Hydra's loader over folders.

    Hydra has one global state for each process. What another caller has put there is put back.
    """
    before = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(folders[0]), job_name="kdg", version_base="1.3"):
            loader = GlobalHydra.instance().config_loader()
    finally:
        if before is not None:
            GlobalHydra.instance().clear()
            GlobalHydra.instance().initialize(before)
    sources = loader.get_sources()
    (main,) = (i for i, source in enumerate(sources) if source.provider == "main")
    sources[main : main + 1] = [
        _KeptFiles(provider, f"{_KeptFiles.scheme()}://{folder}")
        for provider, folder in zip(("main", "command-line"), folders, strict=False)
    ]
    return loader
