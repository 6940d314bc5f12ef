"""STOMP as its clients see it: libraries in all versions, WebSocket, browsers, large and odd
frames, and headers.
"""
