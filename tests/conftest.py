"""Fixtures for every room."""

from __future__ import annotations
