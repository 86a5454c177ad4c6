//! A server of the Remote Execution API in this process, which can be wrong in a chosen way.

use std::collections::HashMap;
use std::io::Read as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use bazel_remote_apis::google::bytestream as bytes;
use bazel_remote_apis::google::rpc;
use belljar::results::Trace;
use futures_util::{Stream, StreamExt, stream};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use sha2::{Digest, Sha256};
use tonic::transport::Server as Transport;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// How a server is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is right.
    None,
    /// Contents are others than their digest says.
    Contents,
    /// Files of action results are said to have so many bytes.
    Length(i64),
    /// The digests of files are no digests.
    Hash,
    /// Contents are gone.
    Lost,
    /// All contents are these, and so are their digests.
    Garbage,
    /// Traces are made up from right ones: what a process writes is another text, and all digests fit.
    Lies,
    /// Every action has the result of any other one.
    Mixed,
    /// It answers after a minute.
    Slow,
    /// It answers after a tenth of a second.
    Sluggish,
    /// It refuses to be read.
    Denied,
    /// It takes nothing.
    ReadOnly,
    /// It has no room for contents.
    Full,
    /// It is no cache.
    NoCache,
}

type Stored = Mutex<HashMap<String, Vec<u8>>>;

/// The services of one server.
#[derive(Clone)]
struct Services {
    fault: Fault,
    /// It takes and gives contents in the format of Zstandard, too.
    compresses: bool,
    contents: Arc<Stored>,
    results: Arc<Mutex<HashMap<String, api::ActionResult>>>,
    requests: Arc<AtomicU64>,
    /// Contents that came or went in that format.
    compressed: Arc<AtomicU64>,
    headers: Arc<Mutex<Vec<String>>>,
}

/// A server that runs as long as this lives.
pub struct Server {
    services: Services,
    pub address: String,
    ends: Arc<AtomicBool>,
}

impl Server {
    pub fn start(fault: Fault) -> Self {
        Self::with(Services {
            fault,
            compresses: false,
            contents: Arc::default(),
            results: Arc::default(),
            requests: Arc::default(),
            compressed: Arc::default(),
            headers: Arc::default(),
        })
    }

    /// A right one with the contents of `self`, which compresses.
    pub fn compressing(&self) -> Self {
        Self::with(Services { compresses: true, ..self.services.clone() })
    }

    /// Contents that came or went compressed.
    pub fn compressed(&self) -> u64 {
        self.services.compressed.load(Ordering::Relaxed)
    }

    /// Puts so many traces of 1 MiB, which nobody needs, before those of the lists of commands.
    pub fn lengthen_lists(&self, count: u8) {
        let mut results = self.services.results.lock().unwrap();
        let is_list = |result: &&mut api::ActionResult| {
            result.output_files.iter().all(|file| file.path.contains('/'))
        };
        for result in results.values_mut().filter(is_list) {
            let useless = (0..count).map(|number| {
                // What cannot be compressed does not matter here.
                let bytes = [number].repeat(1 << 20);
                let (digest, name) = (digest_of(&bytes), hash(&[number]));
                self.services.contents.lock().unwrap().insert(digest.hash.clone(), bytes);
                let path = format!("{name}/{name}/{name}");
                api::OutputFile { path, digest: Some(digest), ..api::OutputFile::default() }
            });
            let files = useless.chain(std::mem::take(&mut result.output_files)).collect();
            result.output_files = files;
        }
    }

    /// Forgets all results, and keeps the contents.
    pub fn forget_results(&self) {
        self.services.results.lock().unwrap().clear();
    }

    /// A server with the contents of `self` that is wrong in another way.
    pub fn turned(&self, fault: Fault) -> Self {
        Self::with(Services { fault, requests: Arc::default(), ..self.services.clone() })
    }

    fn with(services: Services) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (sender, started) = std::sync::mpsc::channel();
        let (of_thread, until) = (services.clone(), ends.clone());
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
                sender.send(incoming.local_addr().unwrap()).unwrap();
                let ended = async move {
                    while !until.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                };
                let contents =
                    api::content_addressable_storage_server::ContentAddressableStorageServer::new(
                        of_thread.clone(),
                    );
                Transport::builder()
                    .add_service(api::capabilities_server::CapabilitiesServer::new(
                        of_thread.clone(),
                    ))
                    .add_service(api::action_cache_server::ActionCacheServer::new(
                        of_thread.clone(),
                    ))
                    .add_service(contents)
                    .add_service(bytes::byte_stream_server::ByteStreamServer::new(of_thread))
                    .serve_with_incoming_shutdown(incoming, ended)
                    .await
                    .unwrap();
            });
        });
        let address = started.recv().unwrap();
        Self { services, address: format!("grpc://{address}"), ends }
    }

    /// Requests for action results and contents.
    pub fn requests(&self) -> u64 {
        self.services.requests.load(Ordering::Relaxed)
    }

    /// Action results that it has.
    pub fn results(&self) -> usize {
        self.services.results.lock().unwrap().len()
    }

    /// Whether something that it has holds `text`.
    pub fn holds(&self, text: &[u8]) -> bool {
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        let contents = self.services.contents.lock().unwrap();
        let results = self.services.results.lock().unwrap();
        let inline = results.values().map(|result| &result.stdout_raw);
        // As they are kept, and what is in them.
        let mut all = contents.values().chain(inline);
        all.any(|bytes| has(bytes) || decompressed(bytes).is_some_and(|bytes| has(&bytes)))
    }

    /// The values of the header `authorization` that it got.
    pub fn headers(&self) -> Vec<String> {
        self.services.headers.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

impl Services {
    async fn asked<T>(&self, request: &Request<T>) -> Result<(), Status> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if let Some(value) = request.metadata().get("authorization") {
            self.headers.lock().unwrap().push(value.to_str().unwrap().to_owned());
        }
        match self.fault {
            Fault::Slow => {
                tokio::time::sleep(Duration::from_mins(1)).await;
                Ok(())
            }
            Fault::Sluggish => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok(())
            }
            Fault::Denied => Err(Status::permission_denied("you may not read this")),
            _ => Ok(()),
        }
    }

    fn read(&self, digest: &str) -> Option<Vec<u8>> {
        let known = self.contents.lock().unwrap().get(digest).cloned();
        match self.fault {
            Fault::Lost => None,
            Fault::Contents => known.map(|mut bytes| {
                *bytes.last_mut().unwrap() ^= 1;
                bytes
            }),
            Fault::Garbage => Some(GARBAGE.to_vec()),
            _ => known,
        }
    }
}

impl Services {
    /// The digest of a trace like the one with `digest`, of a process that wrote lies.
    fn lie(&self, digest: &str) -> api::Digest {
        let mut contents = self.contents.lock().unwrap();
        let trace = decompressed(&contents[digest]).and_then(|bytes| Trace::from_bytes(&bytes));
        let Some(mut trace) = trace else {
            // The marker of a module.
            return digest_of(&contents[digest]);
        };
        for span in trace.calls.iter_mut().flat_map(|call| &mut call.inputs) {
            for (text, lie) in [(b"text", b"lies"), (b"TEXT", b"LIES")] {
                let bytes = &mut span.bytes.0;
                while let Some(at) = bytes.windows(4).position(|window| window == text) {
                    bytes[at..at + 4].copy_from_slice(lie);
                }
            }
        }
        let bytes = compressed(&trace.to_bytes());
        let made_up = digest_of(&bytes);
        contents.insert(made_up.hash.clone(), bytes);
        made_up
    }
}

/// `bytes` as a server keeps a trace.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn decompressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    StreamingDecoder::new(bytes).ok()?.read_to_end(&mut all).ok()?;
    Some(all)
}

/// The number of Zstandard among the compressors of the protocol.
const ZSTD: i32 = api::compressor::Value::Zstd as i32;

const GARBAGE: &[u8] = &[0xff; 5000];

fn digest_of(bytes: &[u8]) -> api::Digest {
    api::Digest { hash: hash(bytes), size_bytes: i64::try_from(bytes.len()).unwrap() }
}

fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn status(code: tonic::Code) -> rpc::Status {
    rpc::Status { code: code as i32, ..rpc::Status::default() }
}

#[tonic::async_trait]
impl api::capabilities_server::Capabilities for Services {
    async fn get_capabilities(
        &self,
        _request: Request<api::GetCapabilitiesRequest>,
    ) -> Result<Response<api::ServerCapabilities>, Status> {
        let cache = api::CacheCapabilities {
            digest_functions: vec![api::digest_function::Value::Sha256 as i32],
            action_cache_update_capabilities: Some(api::ActionCacheUpdateCapabilities {
                update_enabled: self.fault != Fault::ReadOnly,
            }),
            supported_compressors: if self.compresses { vec![ZSTD] } else { Vec::new() },
            supported_batch_update_compressors: if self.compresses {
                vec![ZSTD]
            } else {
                Vec::new()
            },
            ..api::CacheCapabilities::default()
        };
        let cache_capabilities = (self.fault != Fault::NoCache).then_some(cache);
        Ok(Response::new(api::ServerCapabilities {
            cache_capabilities,
            ..api::ServerCapabilities::default()
        }))
    }
}

#[tonic::async_trait]
impl api::action_cache_server::ActionCache for Services {
    async fn get_action_result(
        &self,
        request: Request<api::GetActionResultRequest>,
    ) -> Result<Response<api::ActionResult>, Status> {
        self.asked(&request).await?;
        let digest = request.into_inner().action_digest.unwrap().hash;
        let results = self.results.lock().unwrap();
        let found = match self.fault {
            Fault::Mixed => results.iter().find(|(key, _)| **key != digest).map(|(_, found)| found),
            _ => results.get(&digest),
        };
        let mut found = found.cloned().ok_or_else(|| Status::not_found("no such action"))?;
        // What a result has itself is a content, too.
        match self.fault {
            Fault::Contents => found.stdout_raw.last_mut().into_iter().for_each(|last| *last ^= 1),
            Fault::Lost => found.stdout_raw.clear(),
            _ => {}
        }
        for file in &mut found.output_files {
            let digest = file.digest.as_mut().unwrap();
            match self.fault {
                Fault::Length(bytes) => digest.size_bytes = bytes,
                Fault::Hash => "../../etc/passwd".clone_into(&mut digest.hash),
                Fault::Garbage => {
                    *digest = api::Digest { hash: hash(GARBAGE), size_bytes: 5000 };
                }
                Fault::Lies => *digest = self.lie(&digest.hash),
                _ => {}
            }
        }
        Ok(Response::new(found))
    }

    async fn update_action_result(
        &self,
        request: Request<api::UpdateActionResultRequest>,
    ) -> Result<Response<api::ActionResult>, Status> {
        let request = request.into_inner();
        let result = request.action_result.unwrap();
        for file in &result.output_files {
            let digest = &file.digest.as_ref().unwrap().hash;
            if !self.contents.lock().unwrap().contains_key(digest) {
                return Err(Status::failed_precondition("a file of the result is missing"));
            }
        }
        self.results.lock().unwrap().insert(request.action_digest.unwrap().hash, result.clone());
        Ok(Response::new(result))
    }
}

#[tonic::async_trait]
impl api::content_addressable_storage_server::ContentAddressableStorage for Services {
    type GetTreeStream = stream::Empty<Result<api::GetTreeResponse, Status>>;
    type GetChunkMappingStream = stream::Empty<Result<api::GetChunkMappingResponse, Status>>;

    async fn find_missing_blobs(
        &self,
        request: Request<api::FindMissingBlobsRequest>,
    ) -> Result<Response<api::FindMissingBlobsResponse>, Status> {
        let contents = self.contents.lock().unwrap();
        let mut missing_blob_digests = request.into_inner().blob_digests;
        missing_blob_digests.retain(|digest| !contents.contains_key(&digest.hash));
        Ok(Response::new(api::FindMissingBlobsResponse { missing_blob_digests }))
    }

    async fn batch_update_blobs(
        &self,
        request: Request<api::BatchUpdateBlobsRequest>,
    ) -> Result<Response<api::BatchUpdateBlobsResponse>, Status> {
        let mut responses = Vec::new();
        for mut blob in request.into_inner().requests {
            if blob.compressor == ZSTD {
                assert!(self.compresses);
                self.compressed.fetch_add(1, Ordering::Relaxed);
                blob.data = decompressed(&blob.data).unwrap();
            }
            let digest = blob.digest.unwrap();
            let is_right = digest.hash == hash(&blob.data);
            let code = match self.fault {
                Fault::Full => tonic::Code::ResourceExhausted,
                _ if !is_right => tonic::Code::InvalidArgument,
                _ => tonic::Code::Ok,
            };
            if code == tonic::Code::Ok {
                self.contents.lock().unwrap().insert(digest.hash.clone(), blob.data);
            }
            let digest = Some(digest);
            responses.push(api::batch_update_blobs_response::Response {
                digest,
                status: Some(status(code)),
            });
        }
        Ok(Response::new(api::BatchUpdateBlobsResponse { responses }))
    }

    async fn batch_read_blobs(
        &self,
        request: Request<api::BatchReadBlobsRequest>,
    ) -> Result<Response<api::BatchReadBlobsResponse>, Status> {
        self.asked(&request).await?;
        let request = request.into_inner();
        let compresses = request.acceptable_compressors.contains(&ZSTD);
        let answer = |digest: api::Digest| {
            let found = self.read(&digest.hash);
            let code = if found.is_some() { tonic::Code::Ok } else { tonic::Code::NotFound };
            let data = found.unwrap_or_default();
            let (data, compressor) = if compresses {
                self.compressed.fetch_add(1, Ordering::Relaxed);
                (compressed(&data), ZSTD)
            } else {
                (data, 0)
            };
            let (digest, status) = (Some(digest), Some(status(code)));
            api::batch_read_blobs_response::Response { digest, data, compressor, status }
        };
        // In another order than they were asked for, as the API allows.
        let responses = request.digests.into_iter().rev().map(answer).collect();
        Ok(Response::new(api::BatchReadBlobsResponse { responses }))
    }

    async fn get_tree(
        &self,
        _request: Request<api::GetTreeRequest>,
    ) -> Result<Response<Self::GetTreeStream>, Status> {
        Err(Status::unimplemented("trees"))
    }

    async fn split_blob(
        &self,
        _request: Request<api::SplitBlobRequest>,
    ) -> Result<Response<api::SplitBlobResponse>, Status> {
        Err(Status::unimplemented("parts"))
    }

    async fn get_chunk_mapping(
        &self,
        _request: Request<api::GetChunkMappingRequest>,
    ) -> Result<Response<Self::GetChunkMappingStream>, Status> {
        Err(Status::unimplemented("parts"))
    }

    async fn splice_blob(
        &self,
        _request: Request<api::SpliceBlobRequest>,
    ) -> Result<Response<api::SpliceBlobResponse>, Status> {
        Err(Status::unimplemented("parts"))
    }

    async fn register_chunk_mapping(
        &self,
        _request: Request<Streaming<api::RegisterChunkMappingRequest>>,
    ) -> Result<Response<api::RegisterChunkMappingResponse>, Status> {
        Err(Status::unimplemented("parts"))
    }
}

#[tonic::async_trait]
impl bytes::byte_stream_server::ByteStream for Services {
    type ReadStream = Pin<Box<dyn Stream<Item = Result<bytes::ReadResponse, Status>> + Send>>;

    async fn read(
        &self,
        request: Request<bytes::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        self.asked(&request).await?;
        let name = request.into_inner().resource_name;
        let digest = name.split('/').rev().nth(1).unwrap_or_default();
        let mut found = self.read(digest).ok_or_else(|| Status::not_found("no such contents"))?;
        if name.contains("compressed-blobs/zstd/") {
            self.compressed.fetch_add(1, Ordering::Relaxed);
            // In two frames, as a server may send them.
            let (one, other) = found.split_at(found.len() / 2);
            found = [compressed(one), compressed(other)].concat();
        }
        let parts: Vec<_> = found.chunks(1 << 20).map(<[u8]>::to_vec).collect();
        let parts = stream::iter(parts).map(|data| Ok(bytes::ReadResponse { data }));
        Ok(Response::new(Box::pin(parts)))
    }

    async fn write(
        &self,
        request: Request<Streaming<bytes::WriteRequest>>,
    ) -> Result<Response<bytes::WriteResponse>, Status> {
        let mut parts = request.into_inner();
        let (mut name, mut data) = (String::new(), Vec::new());
        while let Some(part) = parts.message().await? {
            if name.is_empty() {
                name = part.resource_name;
            }
            data.extend(part.data);
        }
        let digest = name.split('/').rev().nth(1).unwrap_or_default().to_owned();
        let committed_size = i64::try_from(data.len()).unwrap();
        if name.contains("compressed-blobs/zstd/") {
            assert!(self.compresses);
            self.compressed.fetch_add(1, Ordering::Relaxed);
            data = decompressed(&data).unwrap();
        }
        if digest != hash(&data) {
            return Err(Status::invalid_argument("other contents"));
        }
        self.contents.lock().unwrap().insert(digest, data);
        Ok(Response::new(bytes::WriteResponse { committed_size }))
    }

    async fn query_write_status(
        &self,
        _request: Request<bytes::QueryWriteStatusRequest>,
    ) -> Result<Response<bytes::QueryWriteStatusResponse>, Status> {
        Err(Status::unimplemented("the state of uploads"))
    }
}
