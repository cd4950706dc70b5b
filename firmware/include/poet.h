/* SPDX-License-Identifier: Apache-2.0 */
/* Arduino finds a library by a header that lies in no folder. */
#include "poet/poet.h"
