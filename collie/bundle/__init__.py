"""A bundle: one file that runs an anomaly again where Collie is not installed.

It is a zip archive that Python runs, made of this package and of those modules of Collie that it needs (`modules`), the
agent that is shipped to the hosts, and the anomaly as data (`content`). The judge in it is Collie's own.

`archive` makes one, and takes one for data; that runs where Collie is. `controller` is what runs in the file, with
nothing but the standard library and the `ssh` program.
"""
