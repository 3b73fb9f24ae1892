"""A harness's token: made or read here, and from then on known by its SHA-256 alone."""

import secrets
from pathlib import Path

from wakegate_schema.harness_tables import token_sha256
from wakegate_schema.secret_files import SecretFileError, SecretFileMissing, create_secret_file, load_bearer_token

SHORTEST = 32
"""Characters that a token has at least: its digest is no secret, so nobody must be able to guess it."""
WHAT = "the harness's token"


def digest_in(path: Path) -> str | None:
    """Return the SHA-256 of the token in the file; None where there is no file.

    Raises:
        SecretFileError: it is no secret file, or its token is too short.
    """
    try:
        token = load_bearer_token(path, WHAT).reveal()
    except SecretFileMissing:
        return None
    if len(token) < SHORTEST:
        raise SecretFileError(
            f"{path} ({WHAT}) holds fewer than {SHORTEST} characters, which could be guessed; name a file that is not"
            " there, and a good one is made",
            reason="secret_file_too_short",
        )
    return token_sha256(token)


def make_token(path: Path) -> str:
    """Make the file with a new token, readable for its owner alone, and return the token's SHA-256.

    Raises:
        SecretFileError: it cannot be made.
    """
    token = secrets.token_urlsafe(32)
    if not create_secret_file(path, token, WHAT):
        raise SecretFileError(f"{path} ({WHAT}) was made by somebody else just now; run this again")
    return token_sha256(token)
