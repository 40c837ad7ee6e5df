//! What takes Prometheus, the schemas of Kubernetes, or a terminal that draws: `make test-more` runs these.

mod kubernetes;
mod metrics;
mod prometheus;
mod top;
