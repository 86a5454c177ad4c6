//! Requests by the host to servers of this process, some of which violate the protocol.
#![cfg(feature = "http")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use belljar::net::EgressPolicy;
use belljar::net::{
    Credential, Credentials, HttpClient, HttpError, HttpLimits, HttpRequest, HttpResponse,
};
use belljar::tape::{MemoryTape, Recorder, Redaction};

const SECRET: &str = "correct-horse-battery";

/// A server that answers one request for each of `answers`, each on a connection of its own.
pub struct Server {
    pub port: u16,
    requests: Receiver<String>,
}

pub type Answer = Box<dyn FnOnce(&mut TcpStream, u16) + Send>;

impl Server {
    pub fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut connection, _) = listener.accept().unwrap();
                let _ = sender.send(request_of(&mut connection));
                answer(&mut connection, port);
            }
        });
        Self { port, requests }
    }

    /// A server that answers with `texts`, in which `PORT` stands for its port.
    pub fn saying(texts: &[&str]) -> Self {
        let answer = |text: &&str| -> Answer {
            let text = (*text).to_owned();
            Box::new(move |connection, port| {
                // A client may close the connection early.
                let _ = connection.write_all(text.replace("PORT", &port.to_string()).as_bytes());
            })
        };
        Self::start(texts.iter().map(answer).collect())
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn policy(&self) -> EgressPolicy {
        EgressPolicy::default().allow(format!("127.0.0.1:{}", self.port).parse().unwrap())
    }

    fn get(&self, path: &str) -> Result<HttpResponse, HttpError> {
        client(self.policy()).send(&HttpRequest::get(self.url(path)))
    }

    /// The next request, in lower case except for its first line and its body.
    pub fn request(&self) -> String {
        self.requests.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

fn client(policy: EgressPolicy) -> HttpClient {
    let timeout = Duration::from_secs(20);
    HttpClient::new(policy).limits(HttpLimits { timeout, ..HttpLimits::default() })
}

fn request_of(connection: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = connection.read(&mut piece).unwrap_or(0);
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if count == 0 {
            return text.into_owned();
        }
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase().lines().find_map(|line| {
            line.strip_prefix("content-length:").map(|value| value.trim().parse::<usize>().unwrap())
        });
        if body.len() >= length.unwrap_or(0) {
            return text.into_owned();
        }
    }
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nx-one: 1\r\ncontent-length: 5\r\n\r\nhello";

fn body(response: Result<HttpResponse, HttpError>) -> Result<String, HttpError> {
    Ok(String::from_utf8(response?.body.read_to_end()?).unwrap())
}

#[test]
fn request_is_sent_unchanged_and_its_response_returned() {
    let server =
        Server::saying(&["HTTP/1.1 404 Not Found\r\nX-A: b\r\ncontent-length: 2\r\n\r\nno"]);
    let request = HttpRequest {
        method: "PATCH".into(),
        url: server.url("/a?b=c#fragment"),
        headers: vec![("x-mine".into(), "yes".into())],
        body: b"body".to_vec(),
    };
    let mut response = client(server.policy()).send(&request).unwrap();
    assert_eq!((response.status, response.url.clone()), (404, server.url("/a?b=c")));
    assert!(response.headers.contains(&("x-a".into(), "b".into())));
    assert_eq!(response.body.read_to_end().unwrap(), b"no");
    let sent = server.request();
    assert!(sent.starts_with("PATCH /a?b=c HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("x-mine: yes\r\n") && sent.ends_with("\r\n\r\nbody"), "{sent}");
}

#[test]
fn invalid_request_is_refused_before_connecting() {
    let client = client(EgressPolicy::allow_by_default());
    let refused = |request: HttpRequest| match client.send(&request) {
        Err(HttpError::Request(message)) => message,
        other => panic!("{other:?}"),
    };
    let get = || HttpRequest::get("http://192.0.2.1/");
    let with = |name: &str| HttpRequest { headers: vec![(name.into(), "x".into())], ..get() };
    assert!(refused(with("Content-Length")).contains("content-length"));
    assert!(refused(with("Host")).contains("host"));
    assert!(refused(with("a b")).contains("a b"));
    assert!(refused(HttpRequest { method: "CONNECT".into(), ..get() }).contains("CONNECT"));
    assert!(refused(HttpRequest { method: "GET /".into(), ..get() }).contains("not a method"));
    let headers = vec![("x".to_owned(), "a\r\nhost: evil".to_owned())];
    assert!(refused(HttpRequest { headers, ..get() }).contains("cannot be sent"));
}

#[test]
fn redirects_are_checked_like_requests() {
    let to = |place: &str| {
        format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n")
    };
    let server = Server::saying(&[&to("/next"), HELLO]);
    assert_eq!(body(server.get("/")).unwrap(), "hello");
    assert!(server.request().starts_with("GET / ") && server.request().starts_with("GET /next "));

    for elsewhere in
        ["http://192.0.2.1/", "http://127.0.0.1:1/", "http://localhost:PORT/", "ftp://x/"]
    {
        let server = Server::saying(&[&to(elsewhere)]);
        let blocked = server.get("/").unwrap_err();
        assert!(matches!(blocked, HttpError::Blocked(_)), "{elsewhere}: {blocked}");
    }
    let round = to("/again");
    let server = Server::saying(&[round.as_str(); 12]);
    let error = server.get("/").unwrap_err();
    assert!(matches!(error, HttpError::Redirects { redirects_max: 10, .. }), "{error}");
}

#[test]
fn redirect_keeps_or_changes_the_method_by_its_status() {
    let to =
        |status: u16| format!("HTTP/1.1 {status} X\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n");
    for (status, method) in [(303, "GET"), (302, "GET"), (307, "POST"), (308, "POST")] {
        let server = Server::saying(&[&to(status), HELLO]);
        let request = HttpRequest {
            method: "POST".into(),
            body: b"data".to_vec(),
            ..HttpRequest::get(server.url("/a"))
        };
        client(server.policy()).send(&request).unwrap();
        server.request();
        let second = server.request();
        assert!(second.starts_with(&format!("{method} /b ")), "{status}: {second}");
        assert_eq!(second.ends_with("data"), method == "POST", "{status}");
    }
}

#[test]
fn origin_headers_do_not_follow_a_redirect_to_another_origin() {
    let other = Server::saying(&[HELLO]);
    let location =
        format!("HTTP/1.1 307 X\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", other.url("/"));
    let first = Server::saying(&[&location]);
    let policy = first.policy().allow(format!("127.0.0.1:{}", other.port).parse().unwrap());
    let mut credentials = Credentials::default();
    let host = format!("127.0.0.1:{}", first.port).parse().unwrap();
    credentials.push(Credential::new("first", host, "X-Key", SECRET).unwrap());
    let request = HttpRequest {
        headers: vec![("cookie".into(), "a=b".into()), ("x-kept".into(), "c".into())],
        ..HttpRequest::get(first.url("/"))
    };
    client(policy).credentials(credentials).send(&request).unwrap();
    let (sent, redirected) = (first.request(), other.request());
    assert!(sent.contains(&format!("x-key: {SECRET}")) && sent.contains("cookie: a=b"), "{sent}");
    assert!(!redirected.contains(SECRET) && !redirected.contains("cookie"), "{redirected}");
    assert!(redirected.contains("x-kept: c"));
}

#[test]
fn credential_is_never_visible_to_the_caller() {
    let echo = format!(
        "HTTP/1.1 200 OK\r\nx-echo: {SECRET}\r\nset-cookie: {SECRET}\r\ncontent-length: {}\r\n\r\n<{SECRET}>",
        SECRET.len() + 2
    );
    let server = Server::saying(&[&echo, HELLO]);
    let host: belljar::net::EgressRule = "127.0.0.1".parse().unwrap();
    let mut credentials = Credentials::default();
    let bearer = format!("Bearer {SECRET}");
    credentials.push(Credential::new("token", host.clone(), "Authorization", bearer).unwrap());
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let client = client(server.policy()).credentials(credentials).tape(Some(recorder));
    assert!(!format!("{:?}", Credential::new("t", host.clone(), "a", SECRET)).contains(SECRET));
    let mut response = client.send(&HttpRequest::get(server.url("/"))).unwrap();
    let text = String::from_utf8(response.body.read_to_end().unwrap()).unwrap();
    assert_eq!(text, "<[redacted]>");
    assert!(!format!("{:?}{:?}", response.headers, tape.records()).contains(SECRET));
    assert!(server.request().contains(&format!("authorization: Bearer {SECRET}")));
    // The caller cannot set a header that the host adds.
    let own = HttpRequest {
        headers: vec![("Authorization".into(), "mine".into())],
        ..HttpRequest::get(server.url("/"))
    };
    assert!(matches!(client.send(&own), Err(HttpError::Request(_))));
    assert!(Credential::new("short", host, "a", "abc").is_err());
}

/// A server that receives a secret may return it in unexpected places: in the name of a header, and in the
/// host, the scheme or the path of a redirect, which are reported and recorded in lower case.
#[test]
fn secrets_are_redacted_from_header_names_and_redirect_targets() {
    let secret = "Correct-Horse-Battery";
    let to = |location: &str| {
        format!("HTTP/1.1 302 X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
    };
    let name = format!("HTTP/1.1 200 OK\r\nx-{secret}: 1\r\ncontent-length: 0\r\n\r\n");
    let places = [
        format!("http://{secret}.test/"),
        format!("{secret}://a/"),
        format!("/{secret}"),
        format!("http://{secret}.localhost:PORT/"),
    ];
    for answer in places.iter().map(|place| to(place)).chain([name]) {
        let server = Server::saying(&[answer.as_str(); 12]);
        let host = "127.0.0.1".parse().unwrap();
        let mut credentials = Credentials::default();
        credentials.push(Credential::new("t", host, "x-key", secret).unwrap());
        let tape = MemoryTape::default();
        let recorder = Recorder::new(tape.clone(), Redaction::default());
        let policy = server.policy().allow("*.localhost".parse().unwrap());
        let client = client(policy).credentials(credentials).tape(Some(recorder));
        let told = match client.send(&HttpRequest::get(server.url("/"))) {
            Ok(response) => format!("{response:?}{:?}", response.headers),
            Err(error) => error.to_string(),
        };
        assert!(server.request().contains(secret));
        let seen = format!("{told}{:?}", tape.records()).to_lowercase();
        assert!(!seen.contains(&secret.to_lowercase()), "{seen}");
        assert!(seen.contains("[redacted]"), "{seen}");
    }
}

/// Regression: the part after the first space of any value was taken for the secret.
#[test]
fn marked_part_of_a_credential_is_redacted() {
    let echo = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{SECRET}", SECRET.len());
    let server = Server::saying(&[&echo]);
    let value = format!("id={SECRET}; theme=very-dark");
    let host = "127.0.0.1".parse().unwrap();
    let credential = Credential::new("t", host, "cookie", value).unwrap();
    assert!(credential.clone().hiding("short").is_err());
    let mut credentials = Credentials::default();
    credentials.push(credential.hiding(SECRET).unwrap());
    let client = client(server.policy()).credentials(credentials);
    let mut response = client.send(&HttpRequest::get(server.url("/"))).unwrap();
    assert_eq!(response.body.read_to_end().unwrap(), b"[redacted]");
}

/// Regression: the second credential was taken for a header that the caller had set.
#[test]
fn of_two_credentials_for_one_header_the_first_counts() {
    let server = Server::saying(&[HELLO]);
    let mut credentials = Credentials::default();
    for (rule, value) in [("127.0.0.1", SECRET), ("127.0.0.0/8", "another-secret")] {
        let rule = rule.parse().unwrap();
        credentials.push(Credential::new("t", rule, "x-key", value).unwrap());
    }
    client(server.policy())
        .credentials(credentials)
        .send(&HttpRequest::get(server.url("/")))
        .unwrap();
    let request = server.request();
    assert!(request.contains(SECRET) && !request.contains("another-secret"), "{request}");
}

/// Regression: a server redirected to the credential that it had received, and the tape and the error showed
/// it.
#[test]
fn location_of_a_redirect_does_not_reveal_a_credential() {
    let to = |place: &str| {
        format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n")
    };
    let told = |answers: &[&str]| {
        let server = Server::saying(answers);
        let mut credentials = Credentials::default();
        let host = "127.0.0.1".parse().unwrap();
        credentials.push(Credential::new("key", host, "x-key", SECRET).unwrap());
        let tape = MemoryTape::default();
        let recorder = Recorder::new(tape.clone(), Redaction::default());
        let client = client(server.policy()).credentials(credentials).tape(Some(recorder));
        let answer = client.send(&HttpRequest::get(server.url("/")));
        assert!(server.request().contains(SECRET), "it was sent");
        let told = format!("{answer:?} {:?}", tape.records());
        assert!(told.contains("[redacted]") && !told.contains(SECRET), "{told}");
        answer.map(|_| ())
    };
    let path = to(&format!("/{SECRET}?of={SECRET}"));
    told(&[&path, HELLO]).unwrap();
    let error = told(&[path.as_str(); 12]).unwrap_err();
    assert!(matches!(error, HttpError::Redirects { .. }), "{error}");
    let error = told(&[&to(&format!("http://{SECRET}.example.com/{SECRET}"))]).unwrap_err();
    assert!(matches!(error, HttpError::Blocked(_)), "{error}");
    let cut_off = format!("HTTP/1.1 302 {SECRET}\r\nlocation");
    let error = told(&[&path, &cut_off]).unwrap_err();
    assert!(!error.to_string().contains(SECRET), "{error}");
}

/// Credentials that leave this machine need HTTPS.
#[test]
fn credentials_are_not_sent_unencrypted() {
    let host = "localhost".parse().unwrap();
    let mut credentials = Credentials::default();
    credentials.push(Credential::new("t", host, "x-key", SECRET).unwrap());
    let server = Server::saying(&[HELLO]);
    let policy = server.policy().allow("localhost".parse().unwrap());
    let policy = policy.allow("127.0.0.0/8".parse().unwrap()).allow("::1".parse().unwrap());
    let url = format!("http://localhost:{}/", server.port);
    client(policy).credentials(credentials).send(&HttpRequest::get(url)).unwrap();
    assert!(!server.request().contains(SECRET));
}

#[test]
fn name_that_resolves_to_loopback_needs_a_rule_for_the_address() {
    let server = Server::saying(&[HELLO]);
    let policy = EgressPolicy::default().allow("localhost".parse().unwrap());
    let url = format!("http://localhost:{}/", server.port);
    let blocked = client(policy).send(&HttpRequest::get(url)).unwrap_err();
    assert!(matches!(blocked, HttpError::Blocked(_)), "{blocked}");
}

#[test]
fn a_stall_ends_at_the_timeout() {
    let stall = |text: &'static str| -> Server {
        let answer: Answer = Box::new(move |connection, _| {
            let _ = connection.write_all(text.as_bytes());
            std::thread::sleep(Duration::from_secs(30));
        });
        Server::start(vec![answer])
    };
    for text in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal"] {
        let server = stall(text);
        let limits = HttpLimits { timeout: Duration::from_millis(300), ..HttpLimits::default() };
        let client = HttpClient::new(server.policy()).limits(limits);
        let error = body(client.send(&HttpRequest::get(server.url("/")))).unwrap_err();
        assert!(matches!(error, HttpError::Timeout { timeout_ms: 300, .. }), "{text:?}: {error:?}");
    }
}

#[test]
fn wrong_content_lengths_are_detected() {
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello";
    let error = body(Server::saying(&[short]).get("/")).unwrap_err();
    assert!(matches!(error, HttpError::Connection { .. }), "{error:?}");
    let long = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhello";
    assert_eq!(body(Server::saying(&[long]).get("/")).unwrap(), "he");
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    assert!(body(Server::saying(&[chunked]).get("/")).is_err());
    let server = Server::saying(&["nonsense\r\n\r\n"]);
    assert!(matches!(server.get("/").unwrap_err(), HttpError::BadAnswer { .. }));
}

#[test]
fn request_and_response_sizes_are_limited() {
    let limits =
        HttpLimits { response_bytes_max: 4, request_bytes_max: 4, ..HttpLimits::default() };
    let server = Server::saying(&[HELLO]);
    let client = HttpClient::new(server.policy()).limits(limits);
    let error = body(client.send(&HttpRequest::get(server.url("/")))).unwrap_err();
    assert!(matches!(error, HttpError::TooLong { bytes_max: 4, .. }), "{error:?}");
    let request = HttpRequest { body: b"hello".to_vec(), ..HttpRequest::get(server.url("/")) };
    let error = client.send(&request).unwrap_err();
    assert!(matches!(error, HttpError::TooLong { bytes_max: 4, .. }), "{error:?}");
}
