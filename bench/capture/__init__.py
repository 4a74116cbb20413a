"""Runs on disk: their folders, their manifests, and reading them back."""
