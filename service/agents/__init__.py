"""The agents' side of the service: what an instance is handed, and what it may say."""
