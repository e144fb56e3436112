"""Lists of the clouds at their real size, served over HTTP, for the bench of the adapters' inventory."""
