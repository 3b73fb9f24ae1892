"""A credential's file: the credential of an instance for its harness, which asks the provider by itself too."""

from pathlib import Path
from typing import Final

from wakegate_schema.sealing import BearerToken
from wakegate_schema.secret_files import SecretFileError, SecretFileMissing, create_secret_file, load_bearer_token

WHAT: Final = "the credential for the harness"


def check_place(path: Path, *, is_new: bool) -> None:
    """Raise before anything is asked for if the file could not be made.

    Args:
        path: where the credential is to go.
        is_new: whether no credential is here yet that the file could hold already.

    Raises:
        SecretFileError: its folder is not there, or it holds what cannot be the credential.
    """
    if not path.parent.is_dir():
        raise SecretFileError(f"{path} ({WHAT}) cannot be made: the folder {path.parent} is not there; make it first")
    try:
        load_bearer_token(path, WHAT)
    except SecretFileMissing:
        return
    if is_new:
        raise _taken(path)


def save(path: Path, token: BearerToken) -> bool:
    """Make the file, readable for its owner alone; never replace one.

    Args:
        path: where; its folder must be there.
        token: the credential.

    Returns:
        False if a file that holds this very credential was there.

    Raises:
        SecretFileError: it cannot be made, or holds something else.
    """
    if create_secret_file(path, token.reveal(), WHAT):
        return True
    if load_bearer_token(path, WHAT) != token:
        raise _taken(path)
    return False


def _taken(path: Path) -> SecretFileError:
    return SecretFileError(
        f"{path} ({WHAT}) is there and holds something else, which is not replaced; name another file, or delete this"
        " one, and run the same command again",
        reason="secret_file_exists",
    )
