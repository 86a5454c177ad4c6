//! Makes requests over `wasi:http`, and calls that it forbids.
//!
//! `fetch METHOD URL [BODY [HEADER]...]` prints the answer. Other words name what is tried: see `main`.

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, RequestOptions, Scheme, http_error_code,
};
use wasip2::io::poll::poll;
use wasip2::io::streams::StreamError;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["fetch", method, url] => print(fetch(method, url, None, &[])),
        ["fetch", method, url, body, ref headers @ ..] => {
            print(fetch(method, url, Some(body), headers));
        }
        ["early", url] => early(url),
        ["ignored", url, count] => ignored(url, count.parse().expect("a number")),
        ["fire", url] => drop(handle(request("GET", url, Fields::new()), None)),
        ["first-byte", url, ms] => first_byte(url, ms.parse().expect("a number")),
        ["between-bytes"] => {
            println!("{:?}", RequestOptions::new().set_between_bytes_timeout(Some(1)));
        }
        ["trailers", url] => trailers(url),
        ["abandoned", url] => abandoned(url),
        ["fields"] => fields(),
        ["left", url] => {
            let answer = fetch("GET", url, None, &[]).expect("it is answered");
            println!("left open {}", answer.status());
            panic!("the answer is not read");
        }
        ["parts"] => parts(),
        ["twice", url] => twice(url),
        ["unfinished", url] => unfinished(url),
        ["write-after-finish", url] => write_after_finish(url),
        ["finish-before-stream", url] => finish_before_stream(url),
        ["handle-before-headers", url] => {
            let request = request("GET", url, Fields::new());
            let headers = request.headers();
            let _ = handle(request, None);
            drop(headers);
        }
        _ => panic!("unknown words {args:?}"),
    }
}

fn request(method: &str, url: &str, headers: Fields) -> OutgoingRequest {
    let (scheme, rest) = url.split_once("://").expect("a URL has a scheme");
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let request = OutgoingRequest::new(headers);
    let method = match method {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "CONNECT" => Method::Connect,
        other => Method::Other(other.to_owned()),
    };
    request.set_method(&method).expect("the method is one");
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    request.set_scheme(Some(&scheme)).expect("the scheme is one");
    let authority = (!authority.is_empty()).then_some(authority);
    request.set_authority(authority).expect("the authority is one");
    request.set_path_with_query((!path.is_empty()).then_some(path)).expect("the path is one");
    request
}

fn wait(future: &FutureIncomingResponse) -> Result<IncomingResponse, ErrorCode> {
    loop {
        match future.get() {
            Some(answer) => return answer.expect("it was not taken"),
            None => future.subscribe().block(),
        }
    }
}

fn fetch(
    method: &str,
    url: &str,
    body: Option<&str>,
    headers: &[&str],
) -> Result<IncomingResponse, ErrorCode> {
    let fields = Fields::new();
    for header in headers {
        let (name, value) = header.split_once(": ").expect("a header is NAME: VALUE");
        fields.append(name, value.as_bytes()).expect("the header can be set");
    }
    let request = request(method, url, fields);
    let Some(text) = body else { return wait(&handle(request, None)?) };
    let body = request.body().expect("the body is asked for once");
    let future = handle(request, None)?;
    let stream = body.write().expect("the stream is asked for once");
    for piece in text.as_bytes().chunks(4096) {
        stream.blocking_write_and_flush(piece).expect("the body can be written");
    }
    drop(stream);
    if let Err(code) = OutgoingBody::finish(body, None) {
        println!("not finished: {code:?}");
    }
    wait(&future)
}

fn print(answer: Result<IncomingResponse, ErrorCode>) {
    let response = match answer {
        Ok(response) => response,
        Err(code) => return println!("error {code:?}"),
    };
    println!("status {}", response.status());
    for (name, value) in response.headers().entries() {
        println!("{name}: {}", String::from_utf8_lossy(&value));
    }
    let body = response.consume().expect("the body is consumed once");
    assert!(response.consume().is_err());
    let stream = body.stream().expect("the stream is asked for once");
    assert!(body.stream().is_err());
    let mut whole = Vec::new();
    loop {
        match stream.blocking_read(1 << 20) {
            Ok(bytes) => whole.extend(bytes),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => {
                println!("{} bytes, then {:?}", whole.len(), http_error_code(&error));
                break;
            }
        }
    }
    drop(stream);
    let trailers = IncomingBody::finish(body);
    println!("{} bytes: {}", whole.len(), String::from_utf8_lossy(&whole[..whole.len().min(99)]));
    println!("trailers {:?}", trailers.get().map(|it| it.map(|it| it.map(|it| it.is_some()))));
    println!("trailers {:?}", trailers.get().map(|it| it.map(|it| it.map(|it| it.is_some()))));
}

/// The body is finished before the request is handed over.
fn early(url: &str) {
    let request = request("POST", url, Fields::new());
    let body = request.body().expect("the body is asked for once");
    assert!(request.body().is_err());
    let stream = body.write().expect("the stream is asked for once");
    assert!(body.write().is_err());
    stream.blocking_write_and_flush(b"early").expect("the body can be written");
    drop(stream);
    OutgoingBody::finish(body, None).expect("the body can be finished");
    print(handle(request, None).and_then(|future| wait(&future)));
}

/// Answers that nobody reads: not asked for, not consumed, not read.
fn ignored(url: &str, count: usize) {
    for at in 0..count {
        let future = handle(request("GET", url, Fields::new()), None).expect("it can be asked");
        if at % 3 > 0 {
            let response = wait(&future).expect("there is an answer");
            if at % 3 > 1 {
                drop(response.consume());
            }
        }
    }
    println!("done");
}

fn first_byte(url: &str, ms: u64) {
    let options = RequestOptions::new();
    options.set_connect_timeout(Some(9_000_000_000)).expect("there is such a timeout");
    options.set_first_byte_timeout(Some(ms * 1_000_000)).expect("there is such a timeout");
    let (connect, first) = (options.connect_timeout(), options.first_byte_timeout());
    println!("{connect:?} {first:?} {:?}", options.between_bytes_timeout());
    let future = handle(request("GET", url, Fields::new()), Some(options));
    print(future.and_then(|future| wait(&future)));
}

fn trailers(url: &str) {
    let request = request("POST", url, Fields::new());
    let body = request.body().expect("the body is asked for once");
    let future = handle(request, None).expect("it can be asked");
    let trailers = Fields::new();
    trailers.append("x-sum", b"1").expect("it can be set");
    println!("{:?}", OutgoingBody::finish(body, Some(trailers)));
    print(wait(&future));
}

fn abandoned(url: &str) {
    let request = request("POST", url, Fields::new());
    let body = request.body().expect("the body is asked for once");
    let future = handle(request, None).expect("it can be asked");
    println!("{}", future.get().is_none());
    drop(body);
    print(wait(&future));
    println!("{:?}", future.get().map(|it| it.is_err()));
}

/// Waits for the answer of a request whose body is not finished, first for a second, then without an end.
fn unfinished(url: &str) {
    let request = request("POST", url, Fields::new());
    let _body = request.body().expect("the body is asked for once");
    let future = handle(request, None).expect("it can be asked");
    let (answered, later) = (future.subscribe(), subscribe_duration(1_000_000_000));
    println!("ready {}, {:?} of both", answered.ready(), poll(&[&answered, &later]));
    answered.block();
}

fn fields() {
    let fields = Fields::new();
    println!("append {:?}", fields.append("A", b"1"));
    println!("append {:?}", fields.append("a", b"2"));
    println!("set {:?}", fields.set("B", &[b"3".to_vec(), b"4".to_vec()]));
    println!("get {:?} {:?}", fields.get("a"), fields.get("c"));
    println!("has {} {}", fields.has("b"), fields.has("c"));
    println!("delete {:?}", fields.delete("b"));
    println!("entries {:?}", fields.entries());
    println!("space {:?}", fields.append("a b", b""));
    println!("line {:?}", fields.append("a", b"1\r\nx: y"));
    println!("host {:?}", fields.set("Host", &[b"b".to_vec()]));
    let list = |name: &str| Fields::from_list(&[(name.to_owned(), b"1".to_vec())]).map(|_| ());
    println!("list {:?} {:?} {:?}", list("a"), list(""), list("upgrade"));
    let copy = fields.clone();
    println!("copy {:?} {}", copy.set("a", &[]), fields.entries().len());
    let request = OutgoingRequest::new(fields);
    let headers = request.headers();
    println!("immutable {:?} {:?}", headers.append("c", b""), headers.delete("a"));
}

fn parts() {
    let request = OutgoingRequest::new(Fields::new());
    println!("{:?} {:?}", request.method(), request.path_with_query());
    println!("{:?} {:?}", request.scheme(), request.authority());
    println!("method {:?}", request.set_method(&Method::Other("A B".into())));
    println!("path {:?}", request.set_path_with_query(Some("/a b")));
    println!("path {:?}", request.set_path_with_query(Some("/a#b")));
    println!("scheme {:?}", request.set_scheme(Some(&Scheme::Other("1".into()))));
    println!("authority {:?}", request.set_authority(Some("a/b")));
    println!("authority {:?}", request.set_authority(Some("")));
    println!("method {:?} {:?}", request.set_method(&Method::Patch), request.method());
    println!("path {:?} {:?}", request.set_path_with_query(Some("/?a")), request.path_with_query());
}

fn twice(url: &str) {
    let future = handle(request("GET", url, Fields::new()), None).expect("it can be asked");
    drop(wait(&future));
    println!("{:?}", future.get().map(|it| it.map(|_| ())));
}

fn write_after_finish(url: &str) {
    let request = request("POST", url, Fields::new());
    let body = request.body().expect("the body is asked for once");
    let _stream = body.write().expect("the stream is asked for once");
    let _ = OutgoingBody::finish(body, None);
}

fn finish_before_stream(url: &str) {
    let response = fetch("GET", url, None, &[]).expect("there is an answer");
    let body = response.consume().expect("the body is consumed once");
    let _stream = body.stream().expect("the stream is asked for once");
    IncomingBody::finish(body);
}
