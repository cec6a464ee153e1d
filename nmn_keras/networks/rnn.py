"""The recurrent baseline."""

import keras

from nmn_keras.networks.recurrent import RecurrentNetwork


class RNN(RecurrentNetwork):
    """Recurrent cells fed `x_t` and what came back, then a plain MLP (Vecoven et al. 2020, figure 2)."""

    def _create_readout(self):
        self.main = self._main_layers(keras.layers.Dense, ["kernel_initializer"])

    def _readout(self, seen, context):
        y = context
        for layer in self.main:
            y = layer(y)
        return y, None
