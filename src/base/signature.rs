//! Keys and signatures in the formats of minisign: of toolchains, where the text of a manifest is signed, and of results
//! on a server. Signatures and public keys come from others: they are taken only in the form in which minisign writes them,
//! so that there is one text for each.

use std::fmt;
use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use blake2::{Blake2b512, Digest as _};
use minisign::{SecretKeyBox, SignatureBox};
use ring::signature::Ed25519KeyPair;

use super::SIGNATURE_BYTES_MAX;

/// Longest text of a key, in bytes.
#[cfg(feature = "import")]
pub const KEY_BYTES_MAX: u64 = 4 << 10;

/// The line that precedes the Base64 in files of minisign begins with this.
const COMMENT: &str = "untrusted comment: ";

/// The line with the comment that is signed begins with this.
const TRUSTED_COMMENT: &str = "trusted comment: ";

/// Algorithms: Ed25519, of the text or of its BLAKE2b digest.
const ED25519: &[u8] = b"Ed";
const PREHASHED_ED25519: &[u8] = b"ED";

/// Parts of a decoded secret key: two bytes each for the algorithm of signatures, of the key's encryption and of the
/// checksum; salt and cost of the encryption; ID; seed; public key; checksum.
const ENCRYPTION: std::ops::Range<usize> = 2..4;
const ID: std::ops::Range<usize> = 54..62;
const SEED: std::ops::Range<usize> = 62..94;
const PUBLIC: std::ops::Range<usize> = 94..126;
const SECRET_KEY_BYTES: usize = 158;

/// Characters of the Base64 of the 64 bytes of a signature.
const SIGNATURE_CHARS: usize = 88;

/// A key or signature cannot be used.
#[derive(thiserror::Error)]
pub enum SignatureError {
    /// The text is no signature.
    #[error("it is not a signature of minisign: {0}")]
    NoSignature(String),
    /// The text is no public key.
    #[error(
        "it is not a public key of minisign: expected a text such as RWQ..., with 56 characters"
    )]
    NoKey,
    /// The text is no secret key.
    #[error(
        "it is not a secret key of minisign ({0}): `belljar keys generate` and `minisign -G` make one"
    )]
    NoSecretKey(String),
    /// A secret key cannot be decrypted.
    #[error("the password of the secret key is wrong")]
    WrongPassword,
    /// The signature is of another key.
    #[error("it is signed by key {found}, not by key {wanted}")]
    OtherKey {
        /// The key that made it.
        found: KeyId,
        /// The key that should have.
        wanted: KeyId,
    },
    /// The signature is not one of this text by this key.
    #[error("its signature by key {key} is wrong: it is not what the owner of this key signed")]
    Wrong {
        /// The key.
        key: KeyId,
    },
    /// No key can be made.
    #[error("cannot make a key: {0}")]
    Generate(String),
}

crate::base::readable::readable!(SignatureError);

/// The number that a key has in its files and in its signatures, by chance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyId(u64);

impl KeyId {
    /// The ID in `bytes`, which are eight.
    fn of(bytes: &[u8]) -> Self {
        Self(bytes.iter().rev().fold(0, |id, byte| id << 8 | u64::from(*byte)))
    }

    /// Parses the 16 hex digits that minisign shows.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| is_hex).map(Self)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

/// A key that verifies signatures.
#[derive(Clone, Debug)]
pub struct PublicKey(minisign::PublicKey);

impl PartialEq for PublicKey {
    // The library compares no IDs.
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bytes() == other.0.to_bytes()
    }
}

impl Eq for PublicKey {}

impl PublicKey {
    /// Parses `text`: Base64, or what minisign writes to a file.
    ///
    /// # Errors
    /// [`SignatureError::NoKey`].
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let text = text.trim();
        let line = match text.split_once('\n') {
            Some((comment, line)) if comment.starts_with(COMMENT) => line.trim(),
            Some(_) => return Err(SignatureError::NoKey),
            None => text,
        };
        let key = minisign::PublicKey::from_base64(line).map_err(|_| SignatureError::NoKey)?;
        let is_canonical = key.to_base64() == line && key.to_bytes().starts_with(ED25519);
        if !is_canonical {
            return Err(SignatureError::NoKey);
        }
        Ok(Self(key))
    }

    /// Its ID.
    pub fn id(&self) -> KeyId {
        KeyId::of(self.0.keynum())
    }

    /// It as Base64.
    pub fn to_base64(&self) -> String {
        self.0.to_base64()
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        format!("{COMMENT}minisign public key {}\n{}\n", self.id(), self.to_base64())
    }

    /// Checks that `signature` is one of `text` by this key.
    ///
    /// # Errors
    /// [`SignatureError`]: `OtherKey`, `Wrong`.
    pub fn verify(&self, text: &[u8], signature: &Signature) -> Result<(), SignatureError> {
        let (found, wanted) = (signature.key_id(), self.id());
        if found != wanted {
            return Err(SignatureError::OtherKey { found, wanted });
        }
        let (quiet, output, allow_legacy) = (true, false, false);
        let text = Cursor::new(text);
        minisign::verify(&self.0, &signature.parsed, text, quiet, output, allow_legacy)
            .map_err(|_| SignatureError::Wrong { key: wanted })
    }
}

/// A signature.
#[derive(Clone)]
pub struct Signature {
    text: String,
    parsed: SignatureBox,
}

impl Signature {
    /// Parses `text`, which must be as minisign writes it: four lines, and nothing behind them.
    ///
    /// # Errors
    /// [`SignatureError::NoSignature`].
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let wrong = |why: &str| SignatureError::NoSignature(why.to_owned());
        if text.len() as u64 > SIGNATURE_BYTES_MAX {
            let why = format!("it has more than {SIGNATURE_BYTES_MAX} bytes");
            return Err(SignatureError::NoSignature(why));
        }
        let lines: Vec<&str> = text.lines().collect();
        let [comment, _, trusted, last] = lines[..] else {
            return Err(wrong(&format!("it has {} lines, not 4", lines.len())));
        };
        if !comment.starts_with(COMMENT) || !trusted.starts_with(TRUSTED_COMMENT) {
            return Err(wrong("its first line is not a comment, or its third no trusted comment"));
        }
        // The library reads beyond a shorter one.
        if last.len() != SIGNATURE_CHARS || !last.ends_with("==") {
            return Err(wrong("its last line is not a signature"));
        }
        let parsed = SignatureBox::from_string(text)
            .map_err(|_| wrong("its second or last line is not a signature"))?;
        if !parsed.is_prehashed() {
            return Err(wrong(
                "it is of the old kind: sign with minisign 0.10 or later, without -l",
            ));
        }
        if parsed.to_string() != text {
            return Err(wrong("minisign would write it differently"));
        }
        Ok(Self { text: text.to_owned(), parsed })
    }

    /// The text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The ID of the key that made it, or says so.
    pub fn key_id(&self) -> KeyId {
        KeyId::of(self.parsed.keynum())
    }
}

/// A key that signs.
///
/// ```
/// use belljar::results::{SecretKeyText, SignatureError};
///
/// let wrong = SecretKeyText::parse("untrusted comment: a secret key\nRWR=\n");
/// assert!(matches!(wrong, Err(SignatureError::NoSecretKey(_))));
/// ```
pub struct SecretKey {
    id: [u8; 8],
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl fmt::Debug for SecretKey {
    // Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretKey").field(&self.public.id()).finish()
    }
}

/// A secret key that may be encrypted.
pub struct SecretKeyText {
    text: String,
    bytes: Vec<u8>,
}

impl SecretKeyText {
    /// Parses `text`, the file of a secret key.
    ///
    /// # Errors
    /// [`SignatureError::NoSecretKey`].
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let wrong = |why: &str| SignatureError::NoSecretKey(why.to_owned());
        let mut lines = text.lines();
        if !lines.next().is_some_and(|comment| comment.starts_with(COMMENT)) {
            return Err(wrong("its first line is not a comment"));
        }
        let bytes = lines.next().and_then(|line| BASE64.decode(line.trim()).ok());
        let bytes = bytes.filter(|bytes| bytes.len() == SECRET_KEY_BYTES);
        let bytes = bytes.filter(|bytes| bytes.starts_with(ED25519));
        let bytes = bytes.ok_or_else(|| wrong("its second line is not a key"))?;
        Ok(Self { text: text.to_owned(), bytes })
    }

    /// Whether a password is needed.
    pub fn is_encrypted(&self) -> bool {
        self.bytes[ENCRYPTION] != [0, 0]
    }

    /// Decrypts it with `password`, if it is encrypted.
    ///
    /// # Errors
    /// [`SignatureError`]: `WrongPassword`, `NoSecretKey`.
    pub fn open(self, password: Option<String>) -> Result<SecretKey, SignatureError> {
        if !self.is_encrypted() {
            // Not by the library: minisign writes no checksum for these.
            return SecretKey::of(&self.bytes);
        }
        let boxed = SecretKeyBox::from_string(&self.text);
        // Without a password the library would ask for one.
        let password = password.ok_or(SignatureError::WrongPassword)?;
        let key = boxed.and_then(|boxed| boxed.into_secret_key(Some(password)));
        SecretKey::of(&key.map_err(|_| SignatureError::WrongPassword)?.to_bytes())
    }
}

impl SecretKey {
    /// The key with the parts in `bytes`.
    fn of(bytes: &[u8]) -> Result<Self, SignatureError> {
        let wrong = |why: &str| SignatureError::NoSecretKey(why.to_owned());
        if bytes.len() != SECRET_KEY_BYTES {
            return Err(wrong("it has another length"));
        }
        let pair = Ed25519KeyPair::from_seed_and_public_key(&bytes[SEED], &bytes[PUBLIC]);
        let pair = pair.map_err(|_| wrong("its parts do not fit together"))?;
        let id: [u8; 8] = bytes[ID].try_into().map_err(|_| wrong("it has no ID"))?;
        let public = BASE64.encode([ED25519, &id, &bytes[PUBLIC]].concat());
        Ok(Self { id, pair, public: PublicKey::parse(&public)? })
    }

    /// The key that verifies what it signs.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs `text`, and with it `comment`, which has one line. The same text always gets the same signature, as from
    /// minisign: the library signs with chance, and then bundles would differ.
    ///
    /// # Errors
    /// [`SignatureError::NoSignature`].
    pub fn sign(&self, text: &[u8], comment: &str) -> Result<Signature, SignatureError> {
        let comment = comment.trim();
        let signed = self.pair.sign(&Blake2b512::digest(text));
        let all = self.pair.sign(&[signed.as_ref(), comment.as_bytes()].concat());
        let signed = BASE64.encode([PREHASHED_ED25519, &self.id, signed.as_ref()].concat());
        let all = BASE64.encode(all.as_ref());
        let signature = format!(
            "{COMMENT}signature from belljar\n{signed}\n{TRUSTED_COMMENT}{comment}\n{all}\n"
        );
        let signature = Signature::parse(&signature)?;
        self.public.verify(text, &signature)?;
        Ok(signature)
    }
}

/// The texts of the files of a new key: secret and public. The secret one is encrypted if there is a `password`.
///
/// # Errors
/// [`SignatureError::Generate`] if the system has no random bytes, or too little memory to encrypt it.
#[cfg(any(test, feature = "import"))]
pub fn generate(password: Option<String>) -> Result<(String, PublicKey), SignatureError> {
    let pair = match password {
        Some(password) => minisign::KeyPair::generate_encrypted_keypair(Some(password)),
        None => minisign::KeyPair::generate_unencrypted_keypair(),
    };
    let pair = pair.map_err(|error| SignatureError::Generate(error.to_string()))?;
    let public = PublicKey(pair.pk);
    let comment = format!("belljar secret key {}", public.id());
    let secret = pair.sk.to_box(Some(&comment));
    let secret = secret.map_err(|error| SignatureError::Generate(error.to_string()))?;
    Ok((secret.into_string(), public))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> SecretKey {
        let (secret, _) = generate(None).unwrap();
        SecretKeyText::parse(&secret).unwrap().open(None).unwrap()
    }

    #[test]
    fn a_signature_is_of_one_text_and_one_key_and_always_the_same() {
        let (key, other) = (key(), key());
        let signature = key.sign(b"text", "tools 1").unwrap();
        assert_eq!(signature.text(), key.sign(b"text", "tools 1").unwrap().text());
        key.public().verify(b"text", &signature).unwrap();
        let verify = |key: &SecretKey, text: &[u8]| key.public().verify(text, &signature);
        assert!(matches!(verify(&key, b"texts"), Err(SignatureError::Wrong { .. })));
        assert!(matches!(verify(&other, b"text"), Err(SignatureError::OtherKey { .. })));
        // A key that claims the ID of another.
        let forged = [ED25519, &key.id, &other.public.0.to_bytes()[10..]].concat();
        let forged = PublicKey::parse(&BASE64.encode(forged)).unwrap();
        assert!(matches!(forged.verify(b"text", &signature), Err(SignatureError::Wrong { .. })));
    }

    #[test]
    fn no_line_of_a_signature_can_be_changed_but_the_first() {
        let key = key();
        let text = key.sign(b"text", "tools 1").unwrap().text().to_owned();
        let base64 = |of: &[u8]| BASE64.encode(of);
        let lines: Vec<&str> = text.lines().collect();
        let put = |at: usize, line: &str| {
            let mut lines = lines.clone();
            lines[at] = line;
            lines.join("\n") + "\n"
        };
        let accepts = |text: &str| {
            Signature::parse(text).is_ok_and(|parsed| key.public().verify(b"text", &parsed).is_ok())
        };
        assert!(accepts(&text) && accepts(&put(0, "untrusted comment: another")));
        let short = base64(&[7; 61]);
        let long = base64(&[7; 65]);
        for changed in [
            put(0, "a comment"),
            put(1, &base64(&[b"ED".as_slice(), &key.id, &[0; 64]].concat())),
            put(1, &base64(&[b"Ed".as_slice(), &key.id, &[0; 64]].concat())),
            put(1, &base64(&BASE64.decode(lines[1]).unwrap()[..73])),
            put(1, &base64(&[&BASE64.decode(lines[1]).unwrap()[..], b"x"].concat())),
            put(2, "trusted comment: tools 2"),
            put(2, "trusted comment: tools 1 "),
            put(2, "comment: tools 1"),
            put(3, ""),
            put(3, &short),
            put(3, &long),
            put(3, &base64(&[255; 64])),
            put(3, &format!("{}==", "=".repeat(86))),
            text.replace('\n', "\r\n"),
            format!("{text}\n"),
            format!("{text}{text}"),
            text.trim_end().to_owned(),
            put(0, &format!("{COMMENT}{}", "x".repeat(16 << 10))),
        ] {
            assert!(!accepts(&changed), "{changed}");
        }
    }

    #[test]
    fn an_encrypted_key_opens_with_its_password_alone() {
        let (secret, public) = generate(Some("a password".to_owned())).unwrap();
        let open = |password: Option<&str>| {
            let text = SecretKeyText::parse(&secret).unwrap();
            assert!(text.is_encrypted());
            text.open(password.map(str::to_owned))
        };
        assert_eq!(open(Some("a password")).unwrap().public(), &public);
        assert!(matches!(open(Some("another")), Err(SignatureError::WrongPassword)));
        assert!(matches!(open(None), Err(SignatureError::WrongPassword)));
    }

    #[test]
    fn keys_are_read_as_base64_and_from_files() {
        let key = key().public().clone();
        assert_eq!(PublicKey::parse(&key.to_text()).unwrap(), key);
        assert_eq!(PublicKey::parse(&format!(" {}\n", key.to_base64())).unwrap(), key);
        assert_eq!(KeyId::parse(&key.id().to_string()), Some(key.id()));
        assert_eq!(KeyId::parse("+123456789abcdef"), None);
        let secret_kind = BASE64.encode([b"ED", &key.0.to_bytes()[2..]].concat());
        for wrong in ["", "RW", "\u{e9}", &key.to_base64()[1..], &"A".repeat(56), &secret_kind] {
            assert!(PublicKey::parse(wrong).is_err(), "{wrong}");
            assert!(PublicKey::parse(&format!("{COMMENT}x\n{wrong}\n")).is_err(), "{wrong}");
        }
        assert!(PublicKey::parse(&key.to_text().repeat(2)).is_err());
    }

    proptest! {
        #[test]
        fn any_texts_never_panic(text in "(untrusted comment: .{0,9}\n)?.{0,200}", tail in ".{0,99}") {
            let _ = PublicKey::parse(&text);
            let _ = SecretKeyText::parse(&text);
            let lines = format!("{COMMENT}x\n{text}\n{TRUSTED_COMMENT}{tail}\n{tail}\n");
            for text in [text, lines] {
                if let Ok(signature) = Signature::parse(&text) {
                    let _ = key().public().verify(b"text", &signature);
                }
            }
        }
    }
}
