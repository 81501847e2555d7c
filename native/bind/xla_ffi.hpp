// The part that is used here of XLA's C interface for foreign functions, of its version 0.3: what jaxlib 0.10 has, and
// later ones take. A structure says its own size first, so that either side may be the newer one.
#pragma once
#include <cstddef>
#include <cstdint>

namespace xla {

constexpr int MAJOR = 0, MINOR = 3;

enum ExtensionKind : int { METADATA = 1 };
struct Extension {
    size_t struct_size;
    ExtensionKind kind;
    Extension* next;
};

enum Stage : int { INSTANTIATE, PREPARE, INITIALIZE, EXECUTE };
enum ErrorCode : int { INVALID_ARGUMENT = 3, RESOURCE_EXHAUSTED = 8, INTERNAL = 13 };
enum DataType : int { S32 = 4, F32 = 11, F64 = 12, C64 = 15, C128 = 18 };

struct Buffer {
    size_t struct_size;
    Extension* extensions;
    DataType dtype;
    void* data;
    int64_t rank;
    int64_t* dims;
};

struct Span {
    const char* start;
    size_t length;
};

// Arguments and results; all of them are buffers, kind 1.
struct Buffers {
    size_t struct_size;
    Extension* extensions;
    int64_t count;
    int* kinds;
    void** each;
};

enum AttributeKind : int { STRING = 4 };
struct Attributes {
    size_t struct_size;
    Extension* extensions;
    int64_t count;
    AttributeKind* kinds;
    Span** names;
    void** each;  // of a string its span
};

struct Version {
    size_t struct_size;
    Extension* extensions;
    int major, minor;
};

struct Metadata {
    size_t struct_size;
    Version version;
    uint32_t traits;
    int64_t state;
};
struct MetadataExtension {
    Extension base;
    Metadata* metadata;
};

struct Error;  // XLA's own
struct ErrorArguments {
    size_t struct_size;
    Extension* extensions;
    const char* message;
    ErrorCode code;
};

struct Api {
    size_t struct_size;
    Extension* extensions;
    Version version;
    const void* internal;
    Error* (*error)(ErrorArguments*);
    // more functions follow, of which none is called
};

struct Frame {
    size_t struct_size;
    Extension* extensions;
    const Api* api;
    void* context;
    Stage stage;
    Buffers arguments, results;
    Attributes attributes;
    void* future;
};

inline Error* error(const Frame* frame, ErrorCode code, const char* message) {
    ErrorArguments arguments{sizeof(ErrorArguments), nullptr, message, code};
    return frame->api->error(&arguments);
}

// Answer XLA's question for the version of this interface; false if it did not ask.
inline bool says_version(Frame* frame) {
    if (!frame->extensions || frame->extensions->kind != METADATA) return false;
    Metadata* metadata = reinterpret_cast<MetadataExtension*>(frame->extensions)->metadata;
    metadata->version.major = MAJOR;
    metadata->version.minor = MINOR;
    metadata->traits = 0;
    return true;
}

}  // namespace xla
