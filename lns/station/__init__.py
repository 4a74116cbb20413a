"""The LNS protocol of Semtech's Basics Station, version 2, without input or output."""
