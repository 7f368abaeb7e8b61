"""What people type into the search of the site, and the page that answers: entries of its index, which come first."""

WORDS = {
    "docs/attacks": [
        "membership inference", "attack", "ROC curve", "ROC", "true-positive rate", "trade-off curve", "f-DP",
        "Gaussian differential privacy", "Gaussian DP", "reconstruction attack", "advantage",
    ],
    "docs/audit": ["audit", "canary", "one-run auditing"],
    "docs/backends/README": ["other libraries"],
    "docs/backends/flower": ["federated learning", "client-level", "client-level privacy", "cross-device"],
    "docs/backends/tf_privacy": ["TensorFlow Privacy"],
    "docs/certificates": ["certificate", "verify"],
    "docs/choosing": ["zCDP", "Rényi DP", "moments accountant", "RDP accountant", "PLD accountant", "which accountant"],
    "docs/cli": ["command line", "terminal"],
    "docs/explorer": ["explorer", "sliders"],
    "docs/faq": [
        "fine-tuning", "LoRA", "large language model", "public data", "ghost clipping", "adaptive clipping",
        "good epsilon", "which epsilon", "which delta", "choose delta", "delta choice", "batch norm",
        "gradient accumulation",
    ],
    "docs/howto/budget": ["privacy budget", "privacy filter", "adaptive composition"],
    "docs/howto/check_loop": ["check-loop", "pre-commit", "GitHub Action", "poisson_sampling"],
    "docs/howto/dp_accounting": ["PLDAccountant"],
    "docs/howto/guarantee": ["NIST SP 800-226", "unit of privacy", "trust model", "Hugging Face model card"],
    "docs/howto/jax": ["optax"],
    "docs/guarantees": ["epsilon infinite", "infinite epsilon", "edge cases", "no noise", "lower bound"],
    "docs/howto/noise": [
        "noise multiplier", "how much noise", "target epsilon", "calibrate", "how many steps", "how many epochs",
    ],
    "docs/howto/opacus": ["PrivacyEngine", "make_private"],
    "docs/howto/pipeline": [
        "hyperparameter tuning", "composition", "tuning", "share of epsilon", "cost of a release",
        "parallel composition", "sequential composition", "report noisy max", "noisy max", "whole pipeline",
    ],
    "docs/howto/training": ["callback", "live epsilon", "Keras", "checkpoint", "early stopping"],
    "docs/loaders": [
        "DataLoader", "Hugging Face", "Huggingface", "shuffle", "shuffling", "drop_last", "DistributedSampler",
        "Lightning", "tf.data", "PyTorch", "clipping", "sampler", "shuffled batches", "random seed",
        "multi-GPU", "DistributedDataParallel", "gradient clipping",
    ],
    "docs/mechanisms": [
        "Laplace noise", "Gaussian mechanism", "exponential mechanism", "DP-FTRL", "local differential privacy",
        "randomized response", "discrete Gaussian", "sparse vector", "above threshold", "secure aggregation",
        "Skellam",
    ],
    "docs/notation": ["sigma"],
    "docs/processes": ["privacy loss distribution", "group privacy"],
    "docs/references": ["BibTeX", "cite", "how to cite"],
    "docs/relations": ["user-level", "user-level privacy", "adjacency", "substitution", "replace one", "add or remove"],
    "docs/reports": ["model card", "paper appendix", "batch size", "privacy report"],
    "docs/samplers": ["Poisson sampling", "amplification by subsampling", "subsampling amplification"],
    "docs/sweeps": ["xarray", "pandas", "grid", "sweep grid"],
    "docs/utility": ["sensitivity", "utility", "counting query", "mean query"],
}  # fmt: skip


def directive(page: str) -> str:
    """The entries of a page, below its heading."""
    entries = ", ".join(f"! {word}" for word in WORDS.get(page, []))
    return f"\n```{{index}} {entries}\n```\n" if entries else ""
