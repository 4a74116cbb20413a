"""Parts of a rig that live in this process: what lies behind its servers."""
