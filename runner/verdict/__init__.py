"""Pure judgement of measurements: two runs of one configuration, and whether their times differ."""
