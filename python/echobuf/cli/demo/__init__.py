"""`echobuf demo`: one training task, with and without echoing, measured.

Handwritten digits come as PNG files from an HTTP server with a bandwidth limit, are
decoded and distorted on the CPU, and train a small network: an input that is really
slower than the training. Modules, in the order in which the data flows: `settings`,
`data`, `server` (a separate process), `upstream`, `training`, `report`, `session`;
`command` has the options.
"""
