"""Replaces the version of a crate in the output of `cargo metadata`: downgrade.py CRATE VERSION < IN > OUT."""

import json
import re
import sys

crate, version = sys.argv[1:]
text = re.sub(rf"({re.escape(crate)}@)[^\"]+", rf"\g<1>{version}", sys.stdin.read())
metadata = json.loads(text)

for package in metadata["packages"]:
    if package["name"] == crate:
        package["version"] = version
    for dependency in package["dependencies"]:
        if dependency["name"] == crate:
            dependency["req"] = "*"

json.dump(metadata, sys.stdout)
