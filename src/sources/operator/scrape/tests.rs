mod audience;
mod fetching;
mod finding;
mod following;
mod server;
