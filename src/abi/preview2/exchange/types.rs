//! The types of `wasi:http`.

use wasmtime::component::{ComponentType, Lift, Lower};

/// `wasi:http/types.method`
#[derive(Clone, PartialEq, Eq, Debug, Default, ComponentType, Lift, Lower)]
#[component(variant)]
pub enum Method {
    #[default]
    #[component(name = "get")]
    Get,
    #[component(name = "head")]
    Head,
    #[component(name = "post")]
    Post,
    #[component(name = "put")]
    Put,
    #[component(name = "delete")]
    Delete,
    #[component(name = "connect")]
    Connect,
    #[component(name = "options")]
    Options,
    #[component(name = "trace")]
    Trace,
    #[component(name = "patch")]
    Patch,
    #[component(name = "other")]
    Other(String),
}

impl Method {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Other(name) => name,
        }
    }
}

/// `wasi:http/types.scheme`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub enum Scheme {
    #[component(name = "HTTP")]
    Http,
    #[component(name = "HTTPS")]
    Https,
    #[component(name = "other")]
    Other(String),
}

/// `wasi:http/types.header-error`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub enum HeaderError {
    #[component(name = "invalid-syntax")]
    InvalidSyntax,
    #[component(name = "forbidden")]
    Forbidden,
    #[component(name = "immutable")]
    Immutable,
}

/// `wasi:http/types.DNS-error-payload`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub struct DnsErrorPayload {
    #[component(name = "rcode")]
    pub rcode: Option<String>,
    #[component(name = "info-code")]
    pub info_code: Option<u16>,
}

/// `wasi:http/types.TLS-alert-received-payload`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub struct TlsAlertReceivedPayload {
    #[component(name = "alert-id")]
    pub alert_id: Option<u8>,
    #[component(name = "alert-message")]
    pub alert_message: Option<String>,
}

/// `wasi:http/types.field-size-payload`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub struct FieldSizePayload {
    #[component(name = "field-name")]
    pub field_name: Option<String>,
    #[component(name = "field-size")]
    pub field_size: Option<u32>,
}

/// `wasi:http/types.error-code`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub enum ErrorCode {
    #[component(name = "DNS-timeout")]
    DnsTimeout,
    #[component(name = "DNS-error")]
    DnsError(DnsErrorPayload),
    #[component(name = "destination-not-found")]
    DestinationNotFound,
    #[component(name = "destination-unavailable")]
    DestinationUnavailable,
    #[component(name = "destination-IP-prohibited")]
    DestinationIpProhibited,
    #[component(name = "destination-IP-unroutable")]
    DestinationIpUnroutable,
    #[component(name = "connection-refused")]
    ConnectionRefused,
    #[component(name = "connection-terminated")]
    ConnectionTerminated,
    #[component(name = "connection-timeout")]
    ConnectionTimeout,
    #[component(name = "connection-read-timeout")]
    ConnectionReadTimeout,
    #[component(name = "connection-write-timeout")]
    ConnectionWriteTimeout,
    #[component(name = "connection-limit-reached")]
    ConnectionLimitReached,
    #[component(name = "TLS-protocol-error")]
    TlsProtocolError,
    #[component(name = "TLS-certificate-error")]
    TlsCertificateError,
    #[component(name = "TLS-alert-received")]
    TlsAlertReceived(TlsAlertReceivedPayload),
    #[component(name = "HTTP-request-denied")]
    HttpRequestDenied,
    #[component(name = "HTTP-request-length-required")]
    HttpRequestLengthRequired,
    #[component(name = "HTTP-request-body-size")]
    HttpRequestBodySize(Option<u64>),
    #[component(name = "HTTP-request-method-invalid")]
    HttpRequestMethodInvalid,
    #[component(name = "HTTP-request-URI-invalid")]
    HttpRequestUriInvalid,
    #[component(name = "HTTP-request-URI-too-long")]
    HttpRequestUriTooLong,
    #[component(name = "HTTP-request-header-section-size")]
    HttpRequestHeaderSectionSize(Option<u32>),
    #[component(name = "HTTP-request-header-size")]
    HttpRequestHeaderSize(Option<FieldSizePayload>),
    #[component(name = "HTTP-request-trailer-section-size")]
    HttpRequestTrailerSectionSize(Option<u32>),
    #[component(name = "HTTP-request-trailer-size")]
    HttpRequestTrailerSize(FieldSizePayload),
    #[component(name = "HTTP-response-incomplete")]
    HttpResponseIncomplete,
    #[component(name = "HTTP-response-header-section-size")]
    HttpResponseHeaderSectionSize(Option<u32>),
    #[component(name = "HTTP-response-header-size")]
    HttpResponseHeaderSize(FieldSizePayload),
    #[component(name = "HTTP-response-body-size")]
    HttpResponseBodySize(Option<u64>),
    #[component(name = "HTTP-response-trailer-section-size")]
    HttpResponseTrailerSectionSize(Option<u32>),
    #[component(name = "HTTP-response-trailer-size")]
    HttpResponseTrailerSize(FieldSizePayload),
    #[component(name = "HTTP-response-transfer-coding")]
    HttpResponseTransferCoding(Option<String>),
    #[component(name = "HTTP-response-content-coding")]
    HttpResponseContentCoding(Option<String>),
    #[component(name = "HTTP-response-timeout")]
    HttpResponseTimeout,
    #[component(name = "HTTP-upgrade-failed")]
    HttpUpgradeFailed,
    #[component(name = "HTTP-protocol-error")]
    HttpProtocolError,
    #[component(name = "loop-detected")]
    LoopDetected,
    #[component(name = "configuration-error")]
    ConfigurationError,
    #[component(name = "internal-error")]
    InternalError(Option<String>),
}

impl ErrorCode {
    /// An error of the interface that has no code of its own.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::InternalError(Some(message.into()))
    }
}
