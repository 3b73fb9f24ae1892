"""The catalogue: every check, by area; docs/doctor.md lists the same."""

from typing import Final

from wakegate_console.doctor import (
    clock,
    instances,
    keys,
    postgresql,
    provider,
    public_url,
    queue,
    settings,
    store,
    users,
    work,
)

CHECKS: Final = (
    *settings.CHECKS,
    *keys.CHECKS,
    *users.CHECKS,
    *clock.CHECKS,
    *store.CHECKS,
    *work.CHECKS,
    *postgresql.CHECKS,
    *queue.CHECKS,
    *instances.CHECKS,
    *provider.CHECKS,
    *public_url.CHECKS,
)
"""In the order of the report."""
