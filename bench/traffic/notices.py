"""Whose data is it, and what has to be said with it?

The same texts stand in NOTICES.md beside this file; a run that holds such data repeats them in its
manifest, and so in its report.
"""

SAINT_EYNARD = (
    "Contains information from The Saint Eynard LoRaWAN frames dataset (CampusIoT datasets;"
    " D. Donsez, P. Dubois, M. Langlais, O. Alphand), which is made available here under the Open"
    " Database License (ODbL) 1.0: https://opendatacommons.org/licenses/odbl/1-0/. The frames were"
    " built anew with keys of this bench."
)
SAINT_EYNARD_DEVICES = ("D1D1E80000000033",)

_MIT = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and \
associated documentation files (the "Software"), to deal in the Software without restriction, \
including without limitation the rights to use, copy, modify, merge, publish, distribute, \
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is \
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or \
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT \
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND \
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, \
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT \
OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""

CONFORMANCE = f"""\
Traffic of lorawan_conformance_testing. MIT License.

Copyright (c) 2018 Pablo Modernell, UOC, UdelaR

{_MIT}"""
CONFORMANCE_REPOSITORY = "lorawan_conformance_testing"


def notice_of(repository: str, licence: str) -> str:
    """The notice for a file of conformance traffic that says where it is from ("" where not)."""
    if CONFORMANCE_REPOSITORY in repository:
        return CONFORMANCE
    said = [part for part in (repository, licence) if part]
    return f"Traffic of {': '.join(said)}" if said else ""
