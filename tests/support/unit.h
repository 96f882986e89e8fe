// SPDX-License-Identifier: Apache-2.0
// cmocka with what its header needs before it, in an order that the formatter may not change.
#ifndef QSA_TESTS_UNIT_H
#define QSA_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
