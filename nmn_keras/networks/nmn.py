"""The neuromodulated network."""

from nmn_keras.networks.recurrent import RecurrentNetwork


class NMN(RecurrentNetwork):
    """Cells fed the past give a signal z that modulates every layer of a main network fed `x_t` alone.

    Reference: Vecoven et al. 2020, figure 3.
    """

    def _create_readout(self):
        self.signal = self._signal_layer()
        self.main = self._modulated_layers()

    def _readout(self, seen, context):
        z = self.signal(context)
        return self._run_main(seen, z), z
