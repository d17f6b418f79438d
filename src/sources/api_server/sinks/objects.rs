//! The sink for the objects of primary and child kinds.

use loopwatch_model::observation::{Cause, ObjectView, Observation, SourceId, WatchId};

use crate::sources::api_server::watch::WatchSink;
use std::sync::Arc;

use crate::net::Failure;
use crate::sources::decoding::{self, DecodeOptions, Extra, HashKey};

/// Turns events about objects into observations.
pub(crate) struct ObjectSink {
    pub(crate) watch: WatchId,
    pub(crate) hash_key: HashKey,
    /// Further annotations to keep in the view.
    pub(crate) annotations: Arc<[String]>,
}

impl ObjectSink {
    /// Returns which further parts of the objects of this watch the model needs.
    fn extra(&self) -> Extra {
        let resource = self.watch.0.split('/').next().unwrap_or_default();
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        Extra::of(group, resource)
    }

    fn decode(&self, object: &[u8]) -> Result<Box<ObjectView>, Failure> {
        // Omits the text of the error, which may quote the object.
        let options = DecodeOptions {
            key: &self.hash_key,
            annotations: &self.annotations,
            extra: self.extra(),
        };
        let decoded = decoding::object(object, options);

        decoded
            .map(Box::new)
            .map_err(|_| Failure::new(Cause::Undecodable, "an object that cannot be read"))
    }
}

impl WatchSink for ObjectSink {
    fn source(&self) -> SourceId {
        SourceId::Watch(self.watch.clone())
    }

    fn began(&mut self, epoch: u64, out: &mut Vec<Observation>) {
        out.push(Observation::ListBegan { watch: self.watch.clone(), epoch });
    }

    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure> {
        let object = self.decode(object)?;
        out.push(Observation::Listed { watch: self.watch.clone(), object });
        Ok(())
    }

    fn ended(&mut self, epoch: u64, version: &str, out: &mut Vec<Observation>) {
        out.push(Observation::ListEnded {
            watch: self.watch.clone(),
            epoch,
            version: version.to_owned(),
        });
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let object = self.decode(object)?;
        let version = object.version.clone();
        out.push(Observation::Applied { watch: self.watch.clone(), object });
        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let ObjectView { key, version, .. } = *self.decode(object)?;
        out.push(Observation::Deleted { watch: self.watch.clone(), key, version: version.clone() });
        Ok(version)
    }

    fn progressed(&mut self, version: &str, out: &mut Vec<Observation>) {
        out.push(Observation::Progressed {
            watch: self.watch.clone(),
            version: version.to_owned(),
        });
    }
}
