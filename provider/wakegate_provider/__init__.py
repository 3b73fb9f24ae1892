"""A small, conforming approval provider for trying, developing and testing; loopback only."""

from wakegate_provider.policy import PolicyError, load_policy
from wakegate_provider.review import ReviewError, decide, list_requests, redeliver, show_request
from wakegate_provider.service import ProviderStartError, serve

__all__ = [
    "PolicyError",
    "ProviderStartError",
    "ReviewError",
    "decide",
    "list_requests",
    "load_policy",
    "redeliver",
    "serve",
    "show_request",
]
