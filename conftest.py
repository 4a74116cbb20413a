"""Gives every scenario its rig; see `bench.pytest_plugin` for options and fixtures."""

pytest_plugins = ["bench.pytest_plugin"]
