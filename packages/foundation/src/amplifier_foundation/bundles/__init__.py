"""Bundles: files that say what a session is made of, composed and compiled to a mount plan."""

from amplifier_foundation.bundles.bundle import Bundle, compose
from amplifier_foundation.bundles.bundle_loader import default_bundle, known_bundles, load_bundle
from amplifier_foundation.bundles.mentions import Instruction
from amplifier_foundation.bundles.mount_plan import Prepared, compile_bundle
from amplifier_foundation.bundles.providers import ProviderChoice, detect_provider

__all__ = [
    "Bundle",
    "Instruction",
    "Prepared",
    "ProviderChoice",
    "compile_bundle",
    "compose",
    "default_bundle",
    "detect_provider",
    "known_bundles",
    "load_bundle",
]
