r"""The typed failures of boggn: each message says what happened, what was received and what is allowed."""

from __future__ import annotations

from typing import Any, Self


class BoggnError(Exception):
    r"""Base of every error raised on purpose by this package."""


class ConfigurationError(BoggnError, ValueError):
    r"""A setting is outside what it may be."""

    @classmethod
    def invalid(cls, field: str, value: Any, allowed: str) -> Self:
        r"""The error for one setting: its name, the value received and what is allowed."""
        return cls(f"`{field}` must be {allowed}, but got {value!r}.")


class EncodingError(BoggnError, ValueError):
    r"""Parameters or outcomes cannot be turned into numbers the model can use."""


class DataError(BoggnError, ValueError):
    r"""Rows given to an estimator are not ones it can use."""


class StudyError(BoggnError, ValueError):
    r"""A study or trial is not one that was asked for, or not one this package can work on."""


class UnfittedError(StudyError):
    r"""A study that no model can be fitted to yet."""


class ClassifierError(BoggnError, RuntimeError):
    r"""A classifier in the network's place raised, or answered with what is no probability."""


class MissingPackageError(BoggnError, ImportError):
    r"""A package that only some of boggn needs is not installed."""

    @classmethod
    def of(cls, package: str, purpose: str, remedy: str) -> Self:
        r"""The error for one package: what it is for, and what to install."""
        return cls(f"{purpose} need {package}, which is not installed: pip install {remedy!r}.")
