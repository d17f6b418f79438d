//! The operator: its Pods, leases, revisions, control loops and process.

mod health;
mod deaths;
mod gone;
mod life;
mod rollouts;
mod containers;
mod restarts;
mod stopped;
mod maintenance;
mod leases;
mod leaders;
mod standby;
mod revisions;
mod reconciles;
mod workers;
mod queues;
mod replicas;
mod scrapes;
mod requests;
mod objects;
mod memory;
mod throttling;
mod process;
mod trends;
mod healthy_growth;
