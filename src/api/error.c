// SPDX-License-Identifier: Apache-2.0
//
// Status words, the message of each thread's last failing call, and the version.

#include "api/internal.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[512];

qsa_status qsa_fail(qsa_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    // One line, even when it quotes a name that the caller gave.
    for (char *c = message; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return status;
}

const char *qsa_last_error(void) {
    return message;
}

const char *qsa_status_string(qsa_status status) {
    switch (status) {
    case QSA_OK:
        return "ok";
    case QSA_ERR_ARGUMENT:
        return "argument";
    case QSA_ERR_MEMORY:
        return "memory";
    case QSA_ERR_CAPACITY:
        return "capacity";
    case QSA_ERR_STATE:
        return "state";
    case QSA_ERR_UNSUPPORTED:
        return "unsupported";
    case QSA_ERR_IO:
        return "io";
    case QSA_ERR_DATA:
        return "data";
    case QSA_ERR_DEVICE:
        return "device";
    }
    return "unknown";
}

int qsa_version(void) {
    return QSA_VERSION_NUMBER;
}

#define QSA_TEXT_OF(x) #x
#define QSA_TEXT(x)    QSA_TEXT_OF(x)

const char *qsa_version_string(void) {
    return QSA_TEXT(QSA_VERSION_MAJOR) "." QSA_TEXT(QSA_VERSION_MINOR) "." QSA_TEXT(QSA_VERSION_PATCH);
}
