"""Alembic's environment and the migrations; run by `service.upgrade`."""
