//! Asks the API server about the tokens of loopwatch's own clients.

pub(crate) mod fuzzing;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use loopwatch_model::observation::Cause;
use tokio::sync::Mutex;

use super::connection::review_path;
use super::{Access, Cluster};
use crate::net::Failure;
use crate::sources::feed::ServerClock;

/// Asks the API server about a token.
#[async_trait]
pub(crate) trait TokenReviewer: Send + Sync {
    /// Whether the token is valid, and its account may `get` the path.
    async fn review(&self, token: &str, path: &str) -> Result<Review, Failure>;
}

/// The answer of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    Allowed,
    /// The token is not valid.
    Unauthenticated,
    /// The account may not open the path.
    Forbidden,
}

/// Creates reviews with loopwatch's own account, even if the sources act as the operator.
pub(crate) struct TokenReviews {
    access: Access,
    /// The connection, once there is one.
    cluster: Mutex<Option<Cluster>>,
}

impl TokenReviews {
    pub(crate) fn new(access: Access) -> Self {
        Self { access: Access { operator: None, ..access }, cluster: Mutex::default() }
    }

    async fn cluster(&self) -> Result<Cluster, Failure> {
        let mut cluster = self.cluster.lock().await;
        if let Some(cluster) = &*cluster {
            return Ok(cluster.clone());
        }

        let connected = Cluster::connect(&self.access, &ServerClock::new()).await;
        let connected =
            connected.map_err(|error| Failure::new(Cause::Connection, error.to_string()))?;
        Ok(cluster.insert(connected).clone())
    }
}

#[async_trait]
impl TokenReviewer for TokenReviews {
    async fn review(&self, token: &str, path: &str) -> Result<Review, Failure> {
        let cluster = self.cluster().await?;
        let Some(user) = authenticate(&cluster, token).await? else {
            return Ok(Review::Unauthenticated);
        };

        match is_authorized(&cluster, user, path).await? {
            true => Ok(Review::Allowed),
            false => Ok(Review::Forbidden),
        }
    }
}

/// The user of a token; `None` if the token is not valid for the API server.
async fn authenticate(cluster: &Cluster, token: &str) -> Result<Option<UserInfo>, Failure> {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
    let review = TokenReview { spec, ..TokenReview::default() };
    cluster.review(&review_path::<TokenReview>(), &review).await.map(user)
}

/// The user in an answered review; `None` if the token is not valid.
fn user(answer: TokenReview) -> Option<UserInfo> {
    let status = answer.status.unwrap_or_default();
    let user = status.user.filter(|_| status.authenticated == Some(true));
    user.filter(|user| user.username.as_ref().is_some_and(|name| !name.is_empty()))
}

/// Whether the user may `get` the path.
async fn is_authorized(cluster: &Cluster, user: UserInfo, path: &str) -> Result<bool, Failure> {
    let UserInfo { username, groups, uid, extra } = user;
    let attributes =
        NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
    let spec = SubjectAccessReviewSpec {
        user: username,
        groups,
        uid,
        extra,
        non_resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };

    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    cluster.review(&review_path::<SubjectAccessReview>(), &review).await.map(is_allowed)
}

/// Whether an answered review allows the access.
fn is_allowed(answer: SubjectAccessReview) -> bool {
    answer.status.is_some_and(|status| status.allowed && status.denied != Some(true))
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{Reply, Script};
    use serde_json::json;

    use super::*;

    /// Asks an API server that gives these answers.
    async fn review(answers: Vec<(u16, serde_json::Value)>) -> Result<Review, Failure> {
        let replies = answers
            .into_iter()
            .map(|(status, body)| Reply::Response(status, Vec::new(), body.to_string()));
        let script = Script::new(replies);
        let cluster = Cluster::from_client(script.client(), "test");
        let reviews =
            TokenReviews { access: Access::default(), cluster: Mutex::new(Some(cluster)) };
        reviews.review("token", "/metrics").await
    }

    #[tokio::test]
    async fn a_client_needs_a_valid_token_and_the_permission() {
        let user = json!({"status": {"authenticated": true, "user": {"username": "prometheus"}}});
        let allowed = |allowed| json!({"status": {"allowed": allowed}});
        for (answers, expected) in [
            (vec![(201, user.clone()), (201, allowed(true))], Review::Allowed),
            (vec![(201, user.clone()), (201, allowed(false))], Review::Forbidden),
            (vec![(201, json!({"status": {"error": "expired"}}))], Review::Unauthenticated),
            (vec![(201, json!({}))], Review::Unauthenticated),
            (vec![(201, json!({"status": {"authenticated": true}}))], Review::Unauthenticated),
            (
                vec![(201, json!({"status": {"authenticated": true, "user": {}}}))],
                Review::Unauthenticated,
            ),
        ] {
            assert_eq!(review(answers).await.expect("an answer"), expected);
        }

        let refused = review(vec![(403, json!({"message": "no"}))]).await.expect_err("refused");
        assert_eq!(refused.cause, Cause::Forbidden);
    }
}
