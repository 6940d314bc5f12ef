"""Laws that hold for every story that hypothesis draws, by the room that they are about."""
