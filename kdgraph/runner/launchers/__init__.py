"""Engines that do the runs of a sweep, each behind the interface of :class:`.launcher.Launcher`."""
