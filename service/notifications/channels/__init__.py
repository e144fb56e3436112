"""The ways a message leaves the service."""
