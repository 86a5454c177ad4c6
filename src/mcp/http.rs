//! The server over HTTP, on this machine only, with a token.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::protocol::HttpAnswers;
use super::server::Server;
use crate::base::digest::Digest;

/// The path of the server.
pub const PATH: &str = "/mcp";

/// Connections at once. Further ones wait.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, such as for lack of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Bytes of a token that is made.
const TOKEN_BYTES: usize = 32;

/// A token that clients must send, as `Authorization: Bearer TOKEN`. Its text is not kept.
#[derive(Clone)]
pub struct Token(Digest);

impl Token {
    /// The token with this text.
    ///
    /// # Errors
    /// Why it cannot be one.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() < 16 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token has at least 16 characters: ASCII, without spaces".to_owned());
        }
        Ok(Self(Digest::of(text.as_bytes())))
    }

    /// The text of a new token, from the host's random numbers.
    ///
    /// # Errors
    /// The host has none.
    pub fn make() -> std::io::Result<String> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        // The digest of random bytes is as random.
        Ok(Digest::of(&bytes).to_string())
    }

    /// Whether `request` has it. Digests are compared, so that the time tells nothing of the token.
    fn is_in<B>(&self, request: &Request<B>) -> bool {
        let value = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, token)) = value.and_then(|value| value.split_once(' ')) else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer") && Digest::of(token.trim().as_bytes()) == self.0
    }
}

/// An address that listens.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listening {
    /// Listens at `address`, which must be of this machine only. Port 0 is any free one.
    ///
    /// # Errors
    /// It is not a loopback address, or the host refuses it.
    pub async fn begin(address: SocketAddr) -> std::io::Result<Self> {
        if !is_loopback(address.ip()) {
            let message =
                format!("{address} can be reached from other machines; give 127.0.0.1 or [::1]");
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
        }
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: listener.local_addr()?, listener })
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves clients that have `token`. Does not return.
    pub async fn serve(self, server: &Arc<Server>, token: Token) -> Infallible {
        let answers = HttpAnswers::new(server, self.address.port());
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let place = connections.clone().acquire_owned().await;
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let (answers, token) = (answers.clone(), token.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let (answers, token) = (answers.clone(), token.clone());
                    async move { Ok::<_, Infallible>(answer(&answers, &token, request).await) }
                });
                let mut connection = http1::Builder::new();
                connection.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
                // How a connection ends matters to its client only.
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                drop(place);
            });
        }
    }
}

fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => address.is_loopback(),
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn answer(answers: &HttpAnswers, token: &Token, request: Request<Incoming>) -> Answer {
    if !token.is_in(&request) {
        let text = "send the token of this server: Authorization: Bearer TOKEN\n";
        let mut refusal = refusal(StatusCode::UNAUTHORIZED, text);
        refusal
            .headers_mut()
            .insert(WWW_AUTHENTICATE, hyper::header::HeaderValue::from_static("Bearer"));
        return refusal;
    }
    if request.uri().path() != PATH {
        return refusal(StatusCode::NOT_FOUND, "the server is at /mcp\n");
    }
    answers.answer(request).await
}

fn refusal(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(value: Option<&str>) -> Request<()> {
        let builder = value
            .map_or_else(Request::builder, |value| Request::builder().header(AUTHORIZATION, value));
        builder.body(()).unwrap()
    }

    #[test]
    fn only_the_token_is_accepted() {
        let text = Token::make().unwrap();
        assert_eq!(text.len(), 64);
        let token = Token::new(&format!("{text}\n")).unwrap();
        assert!(token.is_in(&request(Some(&format!("Bearer {text}")))));
        assert!(token.is_in(&request(Some(&format!("bearer {text}")))));
        let wrong = [None, Some("Bearer"), Some("Bearer x"), Some("Basic x")];
        assert!(wrong.into_iter().all(|value| !token.is_in(&request(value))));
        assert!(!token.is_in(&request(Some(&format!("Bearer {}", &text[1..])))));
        assert!(Token::new("short").is_err() && Token::new(&"ä".repeat(20)).is_err());
    }
}
