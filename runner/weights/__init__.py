"""The weights of a real model: its files, as the stacked float32 arrays that a family's buffers are filled with."""
