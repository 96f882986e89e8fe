// SPDX-License-Identifier: Apache-2.0
// A program outside of the project: makes a context with two threads, reads the preset, and shows that
// header and library are of one version. Valid as C17 and C++17.
#include <qsa/qsa.h>

#include <stdio.h>

int main(void) {
    if (qsa_version() != QSA_VERSION_NUMBER) {
        fprintf(stderr, "library %s, header %d\n", qsa_version_string(), QSA_VERSION_NUMBER);
        return 1;
    }
    qsa_geometry geometry;
    qsa_context_config config;
    qsa_context *context = NULL;
    qsa_context_config_init(&config);
    config.threads = 2;
    if (qsa_geometry_preset("qwen3.8-flash-next", &geometry) != QSA_OK ||
        qsa_context_create(&config, &context) != QSA_OK) {
        fprintf(stderr, "%s\n", qsa_last_error());
        return 1;
    }
    printf("qsa %s: a row with 30001 cells attends %d\n", qsa_version_string(),
           (int)qsa_selected_cells(&geometry, QSA_RULE_OFFICIAL, 30001));
    qsa_context_destroy(context);
    return 0;
}
