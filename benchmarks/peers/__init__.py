"""What wakegate is measured against, each at its best, and the helpers that both sides have alike."""
