"""Laws between socket and session: any bytes through any layers are input or one documented end."""
