"""The errors Tidegate's Python side raises on purpose, each with the exit code the command line gives it.

Raised anywhere in the package; `process.invoke` turns them into one line on stderr. Errors in scenario files
come from the compiled core as `ConfigError` (exit code 3) and are not defined here.
"""

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INVALID = 3
EXIT_PARTIAL = 4
EXIT_INTERRUPTED = 130


class TidegateError(Exception):
    """Something went wrong that the message explains."""

    exit_code = EXIT_FAILED


class UsageError(TidegateError):
    """The request itself makes no sense: an unknown name, options that exclude each other."""

    exit_code = EXIT_USAGE


class InvalidFileError(TidegateError, ValueError):
    """A file of expectations or results is not what it should be."""

    exit_code = EXIT_INVALID


class MeasureError(TidegateError, ValueError):
    """A measure cannot be evaluated: bad syntax, an unknown name, or a value that is not there."""

    exit_code = EXIT_INVALID


class LackingError(MeasureError):
    """This run has no such number; another run of the same experiment may have it."""


class NoValueError(LackingError):
    """The number exists and has no value in this run: the delay of a flow of which nothing arrived."""


class NotKeptError(TidegateError):
    """A finished run could not be written: what was kept before it stays, and nothing goes on."""


class ClusterError(TidegateError):
    """A cluster makes no runs any more, or cannot be asked for them: what was kept before it stays."""


class NotStoredError(TidegateError):
    """The result was printed, and could not be written to the folder as well."""


class MissingExtraError(TidegateError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""
